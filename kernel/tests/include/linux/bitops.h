/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_BITOPS_H
#define TESTS_LINUX_BITOPS_H

#include <linux/bits.h>

static inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static inline u32 rol32(u32 word, unsigned int shift)
{
	return (word << (shift & 31)) | (word >> ((-shift) & 31));
}

static inline u64 rol64(u64 word, unsigned int shift)
{
	return (word << (shift & 63)) | (word >> ((-shift) & 63));
}

static inline u32 ror32(u32 word, unsigned int shift)
{
	return rol32(word, -shift);
}

#endif /* TESTS_LINUX_BITOPS_H */
