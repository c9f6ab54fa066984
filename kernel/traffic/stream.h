/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stream: random numbers that depend on a seed and a name and on nothing else.
 *
 * xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2021), its state filled by splitmix64.  Whole numbers only: the
 * logarithm of a C library may differ in its last bit from one machine to the
 * next, and a run must not.
 */
#ifndef TRAFFIC_STREAM_H
#define TRAFFIC_STREAM_H

#include <stdint.h>

struct stream {
	uint64_t state[4];
};

/* Streams of other names are independent of each other, whatever the seed. */
void stream_begin(struct stream *s, uint64_t seed, const char *name);
/* Uniform over all 64-bit numbers. */
uint64_t stream_next(struct stream *s);
/* Exponential of this mean: -mean ln U, rounded down. */
int64_t stream_exponential(struct stream *s, int64_t mean);

#endif /* TRAFFIC_STREAM_H */
