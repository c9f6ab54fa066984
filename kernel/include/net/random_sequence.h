/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A sequence of random numbers that a seed determines, at a few instructions each.
 *
 * Source: M. O'Neill, "PCG: A Family of Simple Fast Space-Efficient
 * Statistically Good Algorithms for Random Number Generation", 2014: PCG-XSH-RR
 * with 64 bits of state and 32 of output, a period of 2^64. Decision: not the kernel's
 * prandom, which takes four times as many instructions; a queue between its thresholds
 * draws for every packet. Nothing here resists who wants to predict it: who can see all
 * drops of a queue could as well fill it.
 */
#ifndef _NET_RANDOM_SEQUENCE_H
#define _NET_RANDOM_SEQUENCE_H

#include <linux/types.h>
#include <linux/bitops.h>

struct random_sequence {
	u64 state;
};

static inline u32 random_sequence_next(struct random_sequence *r)
{
	u64 x = r->state;

	r->state = x * 6364136223846793005ULL + 1442695040888963407ULL;
	return ror32((x ^ x >> 18) >> 27, x >> 59);
}

static inline void random_sequence_seed(struct random_sequence *r, u64 seed)
{
	r->state = seed + 1442695040888963407ULL;
	random_sequence_next(r);
}

#endif
