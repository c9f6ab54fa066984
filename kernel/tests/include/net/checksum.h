/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_NET_CHECKSUM_H
#define TESTS_NET_CHECKSUM_H

#include <linux/types.h>

#ifndef __force
#define __force
#endif

static inline __wsum csum_add(__wsum a, __wsum b)
{
	u64 sum = (u64)a + b;

	return (u32)sum + (u32)(sum >> 32);
}

static inline __wsum csum_sub(__wsum a, __wsum b)
{
	return csum_add(a, ~b);
}

#endif /* TESTS_NET_CHECKSUM_H */
