/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stream: random numbers that are a function of a seed and a stream's number
 * alone, to the bit, wherever they are drawn.
 *
 * Each stream is a xoshiro256** of its own (Blackman and Vigna, 2018), begun
 * by splitmix64 as its authors advise, so that what one draws does not depend
 * on how often another one does.  Logarithm and exponential are computed here:
 * those of a C library differ in the last bit from one processor to another.
 */
#ifndef TRAFFIC_STREAM_H
#define TRAFFIC_STREAM_H

#include <stdint.h>
#include <string.h>

#define STREAM_LN2	0.693147180559945309417232121458

struct stream {
	uint64_t s[4];
};

static inline uint64_t stream_mix(uint64_t *x)
{
	uint64_t z = (*x += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* Begins stream @number of @seed; the two are mixed one after the other. */
static inline void stream_begin(struct stream *r, uint64_t seed, uint64_t number)
{
	uint64_t x = seed;

	x = stream_mix(&x) ^ number;
	x = stream_mix(&x);
	for (int i = 0; i < 4; i++)
		r->s[i] = stream_mix(&x);
}

/* The number of a stream that has a name: FNV-1a. */
static inline uint64_t stream_number(const char *name)
{
	uint64_t x = 0xcbf29ce484222325;

	for (const char *c = name; *c; c++)
		x = (x ^ (uint8_t)*c) * 0x100000001b3;
	return x;
}

static inline uint64_t stream_rotate(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static inline uint64_t stream_next(struct stream *r)
{
	uint64_t *s = r->s;
	uint64_t result = stream_rotate(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = stream_rotate(s[3], 45);
	return result;
}

/* Uniform over the 2^53 multiples of 2^-53 in (0, 1]. */
static inline double stream_unit(struct stream *r)
{
	return (double)((stream_next(r) >> 11) + 1) * 0x1p-53;
}

/* Natural logarithm of a normal number above 0, by 2 artanh((m - 1) / (m + 1)). */
static inline double stream_log(double x)
{
	uint64_t bits;
	double m, t, power, sum = 0;
	int exponent;

	memcpy(&bits, &x, sizeof(bits));
	exponent = (int)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffff) | ((uint64_t)1023 << 52);
	memcpy(&m, &bits, sizeof(m));
	if (m > 1.4142135623730951) {
		m /= 2;
		exponent++;
	}
	t = (m - 1) / (m + 1);
	power = t;
	for (int k = 1; k < 26; k += 2, power *= t * t)
		sum += power / k;
	return exponent * STREAM_LN2 + 2 * sum;
}

/* e^x for x from 0 to 600, by its series between powers of two. */
static inline double stream_exp(double x)
{
	int exponent = (int)(x / STREAM_LN2);
	double rest = x - exponent * STREAM_LN2, term = 1, sum = 1, scale;
	uint64_t bits = (uint64_t)(exponent + 1023) << 52;

	for (int k = 1; k < 20; k++) {
		term *= rest / k;
		sum += term;
	}
	memcpy(&scale, &bits, sizeof(scale));
	return scale * sum;
}

/* Exponential of this mean, in its unit. */
static inline double stream_exponential(struct stream *r, double mean)
{
	return -mean * stream_log(stream_unit(r));
}

/*
 * Pareto of this mean and shape above 1: P(X > x) = (least / x)^shape from
 * least = mean (shape - 1) / shape on.
 */
static inline double stream_pareto(struct stream *r, double mean, double shape)
{
	double least = mean * (shape - 1) / shape;

	return least * stream_exp(-stream_log(stream_unit(r)) / shape);
}

#endif /* TRAFFIC_STREAM_H */
