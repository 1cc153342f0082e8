/* MD5 of byte strings (RFC 1321), sixteen at a time where they are short.
 *
 * A string of at most KL_MD5_SHORT bytes is one block with its padding. Sixteen such
 * blocks are hashed together, one in each lane of a vector. One body is compiled for
 * several kinds of processors, and the compiler divides the vectors into theirs; the
 * best is chosen once at import. Longer strings are hashed one by one.
 */
#ifndef KAFKALOG_MD5_H
#define KAFKALOG_MD5_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { KL_MD5_SIZE = 16, KL_MD5_LANES = 16, KL_MD5_SHORT = 55, KL_MD5_BLOCK = 64 };
/* A block, and the rest of what is copied to it. */
enum { KL_MD5_PADDED = 2 * KL_MD5_BLOCK };
static const uint8_t kl_md5_padding[KL_MD5_BLOCK] = {0x80};

enum { KL_MD5_ANY = 0, KL_MD5_AVX2 = 1, KL_MD5_AVX512 = 2 };

typedef uint32_t kl_md5_lanes
    __attribute__((vector_size(4 * KL_MD5_LANES), aligned(4)));

#define KL_MD5_F(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define KL_MD5_G(b, c, d) ((c) ^ ((d) & ((b) ^ (c))))
#define KL_MD5_H(b, c, d) ((b) ^ (c) ^ (d))
#define KL_MD5_I(b, c, d) ((c) ^ ((b) | ~(d)))
#define KL_MD5_STEP(f, a, b, c, d, word, turn, constant) \
    a += f(b, c, d) + (word) + constant;                 \
    a = (a << (turn)) | (a >> (32 - (turn)));            \
    a += b;
#define KL_MD5_FOUR(f, i, j, k, l, t1, t2, t3, t4, k1, k2, k3, k4) \
    KL_MD5_STEP(f, a, b, c, d, w[i], t1, k1)                       \
    KL_MD5_STEP(f, d, a, b, c, w[j], t2, k2)                       \
    KL_MD5_STEP(f, c, d, a, b, w[k], t3, k3)                       \
    KL_MD5_STEP(f, b, c, d, a, w[l], t4, k4)
#define KL_MD5_ROUND1(i, k1, k2, k3, k4) \
    KL_MD5_FOUR(KL_MD5_F, i, i + 1, i + 2, i + 3, 7, 12, 17, 22, k1, k2, k3, k4)
#define KL_MD5_ROUND2(i, k1, k2, k3, k4)                                         \
    KL_MD5_FOUR(KL_MD5_G, i, (i + 5) % 16, (i + 10) % 16, (i + 15) % 16, 5, 9, 14, \
                20, k1, k2, k3, k4)
#define KL_MD5_ROUND3(i, k1, k2, k3, k4)                                          \
    KL_MD5_FOUR(KL_MD5_H, i, (i + 3) % 16, (i + 6) % 16, (i + 9) % 16, 4, 11, 16, \
                23, k1, k2, k3, k4)
#define KL_MD5_ROUND4(i, k1, k2, k3, k4)                                            \
    KL_MD5_FOUR(KL_MD5_I, i, (i + 7) % 16, (i + 14) % 16, (i + 21) % 16, 6, 10, 15, \
                21, k1, k2, k3, k4)

/* The 64 steps over the words w, in the variables a, b, c and d. */
#define KL_MD5_STEPS                                                   \
    KL_MD5_ROUND1(0, 0xd76aa478u, 0xe8c7b756u, 0x242070dbu, 0xc1bdceeeu)  \
    KL_MD5_ROUND1(4, 0xf57c0fafu, 0x4787c62au, 0xa8304613u, 0xfd469501u)  \
    KL_MD5_ROUND1(8, 0x698098d8u, 0x8b44f7afu, 0xffff5bb1u, 0x895cd7beu)  \
    KL_MD5_ROUND1(12, 0x6b901122u, 0xfd987193u, 0xa679438eu, 0x49b40821u) \
    KL_MD5_ROUND2(1, 0xf61e2562u, 0xc040b340u, 0x265e5a51u, 0xe9b6c7aau)  \
    KL_MD5_ROUND2(5, 0xd62f105du, 0x02441453u, 0xd8a1e681u, 0xe7d3fbc8u)  \
    KL_MD5_ROUND2(9, 0x21e1cde6u, 0xc33707d6u, 0xf4d50d87u, 0x455a14edu)  \
    KL_MD5_ROUND2(13, 0xa9e3e905u, 0xfcefa3f8u, 0x676f02d9u, 0x8d2a4c8au) \
    KL_MD5_ROUND3(5, 0xfffa3942u, 0x8771f681u, 0x6d9d6122u, 0xfde5380cu)  \
    KL_MD5_ROUND3(1, 0xa4beea44u, 0x4bdecfa9u, 0xf6bb4b60u, 0xbebfbc70u)  \
    KL_MD5_ROUND3(13, 0x289b7ec6u, 0xeaa127fau, 0xd4ef3085u, 0x04881d05u) \
    KL_MD5_ROUND3(9, 0xd9d4d039u, 0xe6db99e5u, 0x1fa27cf8u, 0xc4ac5665u)  \
    KL_MD5_ROUND4(0, 0xf4292244u, 0x432aff97u, 0xab9423a7u, 0xfc93a039u)  \
    KL_MD5_ROUND4(12, 0x655b59c3u, 0x8f0ccc92u, 0xffeff47du, 0x85845dd1u) \
    KL_MD5_ROUND4(8, 0x6fa87e4fu, 0xfe2ce6e0u, 0xa3014314u, 0x4e0811a1u)  \
    KL_MD5_ROUND4(4, 0xf7537e82u, 0xbd3af235u, 0x2ad7d2bbu, 0xeb86d391u)

static const uint32_t kl_md5_start[4] = {
    0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u};

/* Kernels are compiled for little-endian processors, as MD5 is. */
static inline uint32_t kl_md5_word(const uint8_t* at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static void kl_md5_block(uint32_t state[4], const uint8_t* block)
{
    uint32_t w[16], a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 16; i++)
        w[i] = kl_md5_word(block + 4 * i);
    KL_MD5_STEPS
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* The bytes after the last whole block, the padding, and the length in bits. */
static void kl_md5_pad(uint8_t* block, const uint8_t* rest, size_t left, uint64_t size,
                       size_t padded)
{
    memset(block, 0, padded);
    if (left)
        memcpy(block, rest, left);
    block[left] = 0x80;
    for (int i = 0; i < 8; i++)
        block[padded - 8 + i] = (uint8_t)((size << 3) >> (8 * i));
}

static void kl_md5(const uint8_t* data, uint64_t size, uint8_t* out)
{
    uint32_t state[4];
    uint8_t last[2 * KL_MD5_BLOCK];
    uint64_t whole = size / KL_MD5_BLOCK * KL_MD5_BLOCK;
    size_t left = (size_t)(size - whole);
    size_t padded = left <= KL_MD5_SHORT ? KL_MD5_BLOCK : 2 * KL_MD5_BLOCK;
    memcpy(state, kl_md5_start, sizeof state);
    for (uint64_t at = 0; at < whole; at += KL_MD5_BLOCK)
        kl_md5_block(state, data + at);
    kl_md5_pad(last, whole || left ? data + whole : NULL, left, size, padded);
    for (size_t at = 0; at < padded; at += KL_MD5_BLOCK)
        kl_md5_block(state, last + at);
    memcpy(out, state, sizeof state);
}

/* Hash KL_MD5_LANES blocks of short strings, each with its padding but without its
 * length; no string is longer than `longest`.
 */
static inline __attribute__((always_inline)) void
kl_md5_lanes_body(uint8_t (*blocks)[KL_MD5_PADDED], const int32_t *sizes, int longest,
                  uint8_t (*out)[KL_MD5_SIZE])
{
    uint32_t words[KL_MD5_LANES], state[4][KL_MD5_LANES];
    kl_md5_lanes w[16], a, b, c, d, zero = {0};
    int used = longest / 4 + 1; /* with the byte after the string */
    for (int i = 0; i < 16; i++) {
        w[i] = zero;
        if (i < used) {
            for (int lane = 0; lane < KL_MD5_LANES; lane++)
                words[lane] = kl_md5_word(blocks[lane] + 4 * i);
            memcpy(&w[i], words, sizeof words);
        }
    }
    for (int lane = 0; lane < KL_MD5_LANES; lane++)
        words[lane] = (uint32_t)sizes[lane] << 3;
    memcpy(&w[14], words, sizeof words);
    a = zero + kl_md5_start[0];
    b = zero + kl_md5_start[1];
    c = zero + kl_md5_start[2];
    d = zero + kl_md5_start[3];
    KL_MD5_STEPS
    a += kl_md5_start[0];
    b += kl_md5_start[1];
    c += kl_md5_start[2];
    d += kl_md5_start[3];
    memcpy(state[0], &a, sizeof a);
    memcpy(state[1], &b, sizeof b);
    memcpy(state[2], &c, sizeof c);
    memcpy(state[3], &d, sizeof d);
    for (int lane = 0; lane < KL_MD5_LANES; lane++)
        for (int i = 0; i < 4; i++)
            memcpy(out[lane] + 4 * i, &state[i][lane], 4);
}

#define KL_MD5_PATH(name, target)                                                    \
    target static void name(uint8_t (*blocks)[KL_MD5_PADDED], const int32_t *sizes,   \
                            int longest, uint8_t (*out)[KL_MD5_SIZE])                \
    {                                                                                \
        kl_md5_lanes_body(blocks, sizes, longest, out);                              \
    }

KL_MD5_PATH(kl_md5_any, )
#if defined(__x86_64__) && defined(__GNUC__)
KL_MD5_PATH(kl_md5_avx2, __attribute__((target("avx2"))))
KL_MD5_PATH(kl_md5_avx512, __attribute__((target("avx512f"))))

static int kl_md5_find_path(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return KL_MD5_AVX512;
    return __builtin_cpu_supports("avx2") ? KL_MD5_AVX2 : KL_MD5_ANY;
}
#else
#define kl_md5_avx2 kl_md5_any
#define kl_md5_avx512 kl_md5_any

static int kl_md5_find_path(void) { return KL_MD5_ANY; }
#endif

static inline void kl_md5_short(int path, uint8_t (*blocks)[KL_MD5_PADDED],
                                const int32_t *sizes, int longest,
                                uint8_t (*out)[KL_MD5_SIZE])
{
    if (path == KL_MD5_AVX512)
        kl_md5_avx512(blocks, sizes, longest, out);
    else if (path == KL_MD5_AVX2)
        kl_md5_avx2(blocks, sizes, longest, out);
    else
        kl_md5_any(blocks, sizes, longest, out);
}

#endif
