/* Checksums and MD5 by each path that the processor has, for tests.
 *
 * Standard input has cases: an int32 of the algorithm (0 CRC-32C, 1 CRC-32, 2 MD5), an
 * int32 size, and so many bytes. Standard output gets the number of paths of CRCs and of
 * MD5, two int32; then for each case and path a CRC as a uint32, or 16 bytes of MD5.
 * MD5 of a short string is computed in each lane, between strings of other lengths.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../kafkalog/_speedups/crc.h"
#include "../../kafkalog/_speedups/md5.h"

static void put_crcs(int kind, const uint8_t *data, size_t size)
{
    for (int path = 0; path <= kl_best_path; path++) {
        uint32_t crc = kl_crc_by(path, kind, data, size);
        fwrite(&crc, sizeof crc, 1, stdout);
    }
}

static void put_md5(int path, const uint8_t *data, int32_t size, int lane)
{
    static uint8_t blocks[KL_MD5_LANES][KL_MD5_PADDED], out[KL_MD5_LANES][KL_MD5_SIZE];
    int32_t sizes[KL_MD5_LANES];
    int longest = size;
    for (int i = 0; i < KL_MD5_LANES; i++) {
        sizes[i] = i == lane ? size : i;
        longest = sizes[i] > longest ? sizes[i] : longest;
        if (i == lane && size)
            memcpy(blocks[i], data, size);
        memcpy(blocks[i] + sizes[i], kl_md5_padding, KL_MD5_BLOCK);
    }
    kl_md5_short(path, blocks, sizes, longest, out);
    fwrite(out[lane], KL_MD5_SIZE, 1, stdout);
}

static void put_md5s(int paths, const uint8_t *data, int32_t size, int lane)
{
    uint8_t out[KL_MD5_SIZE];
    for (int path = 0; path < paths; path++) {
        if (size <= KL_MD5_SHORT) {
            put_md5(path, data, size, lane);
            continue;
        }
        kl_md5(data, size, out);
        fwrite(out, KL_MD5_SIZE, 1, stdout);
    }
}

int main(void)
{
    int32_t head[2], paths[2] = {0, kl_md5_find_path() + 1};
    kl_crc_setup();
    paths[0] = kl_best_path + 1;
    fwrite(paths, sizeof paths, 1, stdout);
    for (int i = 0; fread(head, sizeof head, 1, stdin) == 1; i++) {
        /* Of the exact size, so that sanitizers find a read beyond it. */
        uint8_t *data = malloc(head[1] ? head[1] : 1);
        if (!data || fread(data, 1, head[1], stdin) != (size_t)head[1])
            return 1;
        if (head[0] < 2)
            put_crcs(head[0], data, head[1]);
        else
            put_md5s(paths[1], data, head[1], i % KL_MD5_LANES);
        free(data);
    }
    return 0;
}
