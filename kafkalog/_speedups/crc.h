/* CRC-32C and CRC-32 of buffers, by the fastest path this processor has.
 *
 * Both are reflected CRCs and differ in the polynomial only, so one body serves both.
 * Three paths, the best chosen once at import:
 *
 *   KL_FOLD512  carry-less multiplication of 512 bit lanes, 256 bytes a round; x86-64
 *   KL_FOLD128  the same with 128 bit lanes, 128 bytes a round; x86-64 and ARM64
 *   KL_TABLE    eight tables, eight bytes a round; every processor
 *
 * Folding: a 128 bit lane A that is D bits before a lane B may be replaced by
 * B ^ A.low * (x^(D+32) mod P) ^ A.high * (x^(D-32) mod P) without changing the
 * remainder; what is left at the end goes through kl_short. (Gopal et al., "Fast
 * CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel, 2009.)
 */
#ifndef KAFKALOG_CRC_H
#define KAFKALOG_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { KL_CRC32C = 0, KL_CRC32 = 1 };
enum { KL_TABLE = 0, KL_FOLD128 = 1, KL_FOLD512 = 2 };

static const uint32_t kl_polynomials[2] = {0x82F63B78u, 0xEDB88320u};
static uint32_t kl_tables[2][8][256];
/* Per polynomial, x^n mod P for folding over 512, 1024 and 2048 bits: low, high. */
static uint64_t kl_fold[2][3][2];
static int kl_best_path = KL_TABLE;

static uint64_t kl_fold_constant(uint32_t polynomial, unsigned exponent)
{
    uint32_t power = 0x80000000u; /* 1, reflected */
    for (unsigned i = 0; i < exponent; i++)
        power = (power >> 1) ^ (polynomial & (0u - (power & 1)));
    return (uint64_t)power << 1;
}

static void kl_make_tables(int kind)
{
    uint32_t(*table)[256] = kl_tables[kind];
    for (unsigned i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (kl_polynomials[kind] & (0u - (crc & 1)));
        table[0][i] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (unsigned i = 0; i < 256; i++)
            table[slice][i] =
                (table[slice - 1][i] >> 8) ^ table[0][table[slice - 1][i] & 0xFF];
    for (int distance = 0; distance < 3; distance++) {
        kl_fold[kind][distance][0] =
            kl_fold_constant(kl_polynomials[kind], (512u << distance) + 32);
        kl_fold[kind][distance][1] =
            kl_fold_constant(kl_polynomials[kind], (512u << distance) - 32);
    }
}

static uint32_t kl_by_table(int kind, uint32_t crc, const uint8_t *data, size_t size)
{
    const uint32_t(*table)[256] = kl_tables[kind];
    while (size >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= crc;
        crc = table[7][word & 0xFF] ^ table[6][(word >> 8) & 0xFF] ^
              table[5][(word >> 16) & 0xFF] ^ table[4][(word >> 24) & 0xFF] ^
              table[3][(word >> 32) & 0xFF] ^ table[2][(word >> 40) & 0xFF] ^
              table[1][(word >> 48) & 0xFF] ^ table[0][word >> 56];
        data += 8;
        size -= 8;
    }
    while (size--)
        crc = (crc >> 8) ^ table[0][(crc ^ *data++) & 0xFF];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define KL_FOLDS 1
#define KL_128 __attribute__((target("sse4.2,pclmul")))

typedef __m128i kl_lane;

KL_128 static inline kl_lane kl_load(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

KL_128 static inline void kl_store(void *at, kl_lane lane)
{
    _mm_storeu_si128((__m128i *)at, lane);
}

KL_128 static inline kl_lane kl_xor(kl_lane a, kl_lane b)
{
    return _mm_xor_si128(a, b);
}

KL_128 static inline kl_lane kl_fold_lane(kl_lane lane, kl_lane constants, kl_lane next)
{
    __m128i low = _mm_clmulepi64_si128(lane, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(lane, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Without folding: the instruction for CRC-32C, tables for CRC-32. */
KL_128 static uint32_t kl_short(int kind, uint32_t crc, const uint8_t *data, size_t size)
{
    if (kind != KL_CRC32C)
        return kl_by_table(kind, crc, data, size);
    uint64_t wide = crc;
    while (size >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
        data += 8;
        size -= 8;
    }
    crc = (uint32_t)wide;
    while (size--)
        crc = _mm_crc32_u8(crc, *data++);
    return crc;
}

#elif defined(__aarch64__) && defined(__GNUC__) && \
    (!defined(__clang__) || (defined(__ARM_FEATURE_CRC32) && defined(__ARM_FEATURE_AES)))
#include <arm_acle.h>
#include <arm_neon.h>
#ifdef __linux__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#define KL_FOLDS 1
#ifdef __clang__ /* on Apple's processors, all of which have the instructions */
#define KL_128
#else
#define KL_128 __attribute__((target("+crc+crypto")))
#endif

typedef uint64x2_t kl_lane;

KL_128 static inline kl_lane kl_load(const void *at)
{
    return vreinterpretq_u64_u8(vld1q_u8((const uint8_t *)at));
}

KL_128 static inline void kl_store(void *at, kl_lane lane)
{
    vst1q_u8((uint8_t *)at, vreinterpretq_u8_u64(lane));
}

KL_128 static inline kl_lane kl_xor(kl_lane a, kl_lane b) { return veorq_u64(a, b); }

KL_128 static inline kl_lane kl_fold_lane(kl_lane lane, kl_lane constants, kl_lane next)
{
    poly128_t low = vmull_p64((poly64_t)vgetq_lane_u64(lane, 0),
                              (poly64_t)vgetq_lane_u64(constants, 0));
    poly128_t high = vmull_p64((poly64_t)vgetq_lane_u64(lane, 1),
                               (poly64_t)vgetq_lane_u64(constants, 1));
    return veorq_u64(
        veorq_u64(vreinterpretq_u64_p128(low), vreinterpretq_u64_p128(high)), next);
}

/* Without folding: an instruction for each polynomial. */
KL_128 static uint32_t kl_short(int kind, uint32_t crc, const uint8_t *data, size_t size)
{
    while (size >= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        crc = kind == KL_CRC32C ? __crc32cd(crc, word) : __crc32d(crc, word);
        data += 8;
        size -= 8;
    }
    while (size--) {
        crc = kind == KL_CRC32C ? __crc32cb(crc, *data) : __crc32b(crc, *data);
        data++;
    }
    return crc;
}
#endif

#ifdef KL_FOLDS
KL_128 static uint32_t
kl_by_fold128(int kind, uint32_t crc, const uint8_t *data, size_t size)
{
    if (size < 256)
        return kl_short(kind, crc, data, size);
    const uint64_t start[2] = {crc, 0};
    const kl_lane by_1024 = kl_load(kl_fold[kind][1]);
    kl_lane lanes[8];
    for (int i = 0; i < 8; i++)
        lanes[i] = kl_load(data + 16 * i);
    lanes[0] = kl_xor(lanes[0], kl_load(start));
    for (data += 128, size -= 128; size >= 128; data += 128, size -= 128)
        for (int i = 0; i < 8; i++)
            lanes[i] = kl_fold_lane(lanes[i], by_1024, kl_load(data + 16 * i));
    uint8_t rest[128];
    for (int i = 0; i < 8; i++)
        kl_store(rest + 16 * i, lanes[i]);
    crc = kl_short(kind, 0, rest, sizeof rest);
    return kl_short(kind, crc, data, size);
}
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define KL_512 __attribute__((target("sse4.2,pclmul,avx512f,avx512bw,vpclmulqdq")))

KL_512 static inline __m512i
kl_fold_lanes(__m512i lanes, __m512i constants, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(lanes, constants, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(lanes, constants, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* all three xored */
}

KL_512 static inline __m512i kl_four_times(const uint64_t *constants)
{
    return _mm512_set_epi64((int64_t)constants[1], (int64_t)constants[0],
                            (int64_t)constants[1], (int64_t)constants[0],
                            (int64_t)constants[1], (int64_t)constants[0],
                            (int64_t)constants[1], (int64_t)constants[0]);
}

KL_512 static uint32_t
kl_by_fold512(int kind, uint32_t crc, const uint8_t *data, size_t size)
{
    if (size < 512)
        return kl_by_fold128(kind, crc, data, size);
    const __m512i by_2048 = kl_four_times(kl_fold[kind][2]);
    const __m512i by_512 = kl_four_times(kl_fold[kind][0]);
    __m512i a = _mm512_loadu_si512(data), b = _mm512_loadu_si512(data + 64);
    __m512i c = _mm512_loadu_si512(data + 128), d = _mm512_loadu_si512(data + 192);
    a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (data += 256, size -= 256; size >= 256; data += 256, size -= 256) {
        a = kl_fold_lanes(a, by_2048, _mm512_loadu_si512(data));
        b = kl_fold_lanes(b, by_2048, _mm512_loadu_si512(data + 64));
        c = kl_fold_lanes(c, by_2048, _mm512_loadu_si512(data + 128));
        d = kl_fold_lanes(d, by_2048, _mm512_loadu_si512(data + 192));
    }
    d = kl_fold_lanes(kl_fold_lanes(kl_fold_lanes(a, by_512, b), by_512, c), by_512, d);
    uint8_t rest[64];
    _mm512_storeu_si512(rest, d);
    crc = kl_short(kind, 0, rest, sizeof rest);
    return kl_by_fold128(kind, crc, data, size);
}

static int kl_find_path(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
        return KL_TABLE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("vpclmulqdq"))
        return KL_FOLD512;
    return KL_FOLD128;
}

#elif defined(KL_FOLDS) && defined(__linux__)
static int kl_find_path(void)
{
    unsigned long needed = HWCAP_CRC32 | HWCAP_PMULL;
    return (getauxval(AT_HWCAP) & needed) == needed ? KL_FOLD128 : KL_TABLE;
}

#elif defined(KL_FOLDS)
static int kl_find_path(void) { return KL_FOLD128; }

#else
static int kl_find_path(void) { return KL_TABLE; }
#endif

static inline uint32_t
kl_crc_by(int path, int kind, const uint8_t *data, size_t size)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (path == KL_FOLD512)
        return ~kl_by_fold512(kind, 0xFFFFFFFFu, data, size);
#endif
#ifdef KL_FOLDS
    if (path == KL_FOLD128)
        return ~kl_by_fold128(kind, 0xFFFFFFFFu, data, size);
#endif
    (void)path;
    return ~kl_by_table(kind, 0xFFFFFFFFu, data, size);
}

/* Call once, at import, before any other. */
static void kl_crc_setup(void)
{
    kl_make_tables(KL_CRC32C);
    kl_make_tables(KL_CRC32);
    kl_best_path = kl_find_path();
}

static inline uint32_t kl_crc(int kind, const uint8_t *data, size_t size)
{
    return kl_crc_by(kl_best_path, kind, data, size);
}

#endif
