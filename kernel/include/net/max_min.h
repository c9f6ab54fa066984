/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Max-min fair division of a number of bytes among demands: nobody gets more than it asks for,
 * and what is not asked for is divided among the others, so that there is one level L with
 *
 *	share(i) = min(demand(i), L)
 *
 * All demands fit: L is infinite. Otherwise L is the real number at which the shares add up to
 * the capacity, and in whole bytes its floor, the largest L with sum min(demand(i), L) <=
 * capacity: demands are whole, so at any larger whole level either all shares would still have to
 * fit - then the real level were larger - or they do not. What rounding leaves undivided is less
 * than one byte for each demand that is cut.
 *
 * The textbook sorts the demands. Here the level is found digit by digit, like a radix sort that
 * follows one bucket: each round sorts the demands that share the digits found so far into 256
 * buckets, of which only number and sum are kept, and picks the last bucket whose lower end,
 * taken as the level, still fits. Four rounds settle 32 bits: at most 4 passes over the demands
 * and 4 * 256 steps whatever they are, nothing stored per demand, and none of it moved.
 *
 *	max_min_begin(&m, capacity);
 *	do {
 *		for each i: max_min_add(&m, demand[i]);
 *	} while (max_min_round(&m));
 *	for each i: share[i] = max_min_share(&m, demand[i]);
 *
 * The sums cannot overflow: 2^32 demands below 2^32.
 */
#ifndef NET_MAX_MIN_H
#define NET_MAX_MIN_H

#include <linux/math64.h>
#include <linux/string.h>
#include <linux/types.h>

#define MAX_MIN_BUCKETS	256

struct max_min {
	u64	capacity;
	u64	below;			/* sum of the demands known to be under the level */
	u32	above;			/* number of those known to be over it */
	u32	level;			/* its digits found so far */
	u32	shift;			/* of the digit in question */
	u32	count[MAX_MIN_BUCKETS];
	u64	sum[MAX_MIN_BUCKETS];
};

static inline void max_min_clear(struct max_min *m)
{
	memset(m->count, 0, sizeof(m->count));
	memset(m->sum, 0, sizeof(m->sum));
}

static inline void max_min_begin(struct max_min *m, u64 capacity)
{
	m->capacity = capacity;
	m->below = 0;
	m->above = 0;
	m->level = 0;
	m->shift = 24;
	max_min_clear(m);
}

static inline void max_min_add(struct max_min *m, u32 demand)
{
	u32 bucket = (demand ^ m->level) >> m->shift;

	/* the digits above must be those of the level */
	if (bucket >= MAX_MIN_BUCKETS)
		return;
	m->count[bucket]++;
	m->sum[bucket] += demand;
}

/*
 * Another round is needed? The level's lower digits are still 0, so a demand's digit is its
 * bucket. Invariant: the level found so far fits, and the next number with one more in its last
 * digit does not.
 */
static inline bool max_min_round(struct max_min *m)
{
	u64 below = m->below, total = m->below;
	u32 capped = m->above, i, last = 0;

	for (i = 0; i < MAX_MIN_BUCKETS; i++) {
		total += m->sum[i];
		capped += m->count[i];
	}
	if (m->shift == 24 && total <= m->capacity) {
		m->level = ~0U;
		return false;
	}
	/* at each bucket, `below` is what lower demands ask for, and `capped` counts the others */
	for (i = 0; i < MAX_MIN_BUCKETS; i++) {
		u64 low = (u64)m->level + ((u64)i << m->shift);

		if (below + capped * low > m->capacity)
			break;
		m->below = below;
		m->above = capped - m->count[i];
		last = i;
		below += m->sum[i];
		capped -= m->count[i];
	}
	m->level += last << m->shift;
	if (m->count[last] == 0) {	/* no demand lies near the level: the rest is a division */
		m->level = (u32)div_u64(m->capacity - m->below, m->above);
		return false;
	}
	if (m->shift == 0)
		return false;
	m->shift -= 8;
	max_min_clear(m);
	return true;
}

static inline u32 max_min_share(const struct max_min *m, u32 demand)
{
	return demand < m->level ? demand : m->level;
}

#endif /* NET_MAX_MIN_H */
