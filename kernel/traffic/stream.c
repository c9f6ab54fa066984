// SPDX-License-Identifier: GPL-2.0
/* stream.c: see stream.h. */
#include "stream.h"

#define FRACTION_BITS	40
#define LN2		UINT64_C(0xb17217f7d1cf79ab)	/* ln 2 * 2^64 */

static uint64_t rotate(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void stream_begin(struct stream *s, uint64_t seed, const char *name)
{
	uint64_t x = UINT64_C(0xcbf29ce484222325);	/* FNV-1a of the name */

	for (const char *c = name; *c; c++)
		x = (x ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
	x = splitmix(&x) ^ seed;
	for (int i = 0; i < 4; i++)
		s->state[i] = splitmix(&x);
}

uint64_t stream_next(struct stream *s)
{
	uint64_t *state = s->state;
	uint64_t result = rotate(state[1] * 5, 7) * 9, t = state[1] << 17;

	state[2] ^= state[0];
	state[3] ^= state[1];
	state[1] ^= state[2];
	state[0] ^= state[3];
	state[2] ^= t;
	state[3] = rotate(state[3], 45);
	return result;
}

/*
 * -log2(u / 2^64) in units of 2^-FRACTION_BITS, for u > 0.  Squaring a number
 * from 1 to 2 doubles its logarithm: whether the square reaches 2 is the next
 * binary digit.
 */
static uint64_t minus_log2(uint64_t u)
{
	int shift = __builtin_clzll(u);
	uint64_t m = u << shift;		/* 1 to 2, in units of 2^-63 */
	uint64_t log2 = (uint64_t)(63 - shift);

	for (int i = 0; i < FRACTION_BITS; i++) {
		unsigned __int128 square = (unsigned __int128)m * m >> 63;
		unsigned int digit = square >> 64 & 1;

		log2 = log2 << 1 | digit;
		m = (uint64_t)(square >> digit);
	}
	return ((uint64_t)64 << FRACTION_BITS) - log2;
}

int64_t stream_exponential(struct stream *s, int64_t mean)
{
	uint64_t u = stream_next(s), minus_ln;

	if (!u)
		u = 1;
	minus_ln = (uint64_t)((unsigned __int128)minus_log2(u) * LN2 >> 64);
	return (int64_t)((unsigned __int128)(uint64_t)mean * minus_ln >> FRACTION_BITS);
}
