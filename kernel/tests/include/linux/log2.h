/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_LOG2_H
#define TESTS_LINUX_LOG2_H

#include <linux/bitops.h>

static inline bool is_power_of_2(unsigned long n)
{
	return n && !(n & (n - 1));
}

static inline int ilog2(u64 n)
{
	return fls64(n) - 1;
}

static inline unsigned long roundup_pow_of_two(unsigned long n)
{
	return 1UL << fls64(n - 1);
}

static inline unsigned long rounddown_pow_of_two(unsigned long n)
{
	return 1UL << ilog2(n);
}

#endif /* TESTS_LINUX_LOG2_H */
