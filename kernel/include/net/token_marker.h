/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Token bucket marker: a packet of len bytes is IN if the bucket holds len tokens or more, and then
 * it takes them; else it is OUT and takes none.
 *
 * Sources: A. Lo Monaco, A. Feroz and S. Kalyanaraman, "TCP-Friendly Marking for Scalable
 * Best-Effort Services on the Internet", section 6 (one bucket for all, M bytes every T);
 * N. Malouch and Z. Liu, "Performance Analysis of TCP with RIO Routers", section 3 (one bucket for
 * each flow).
 *
 *	reset		pool <- M at each tick t0 + k T
 *	continuous	pool <- min(M, pool + dt M/T) at each packet, dt after the one before
 *	flow		as continuous, each flow its own pool
 *
 * M is `tokens`, T is `interval`; every pool starts full.
 *
 * Decisions:
 * - reset: the paper gives "a pool of 296 000 bytes refreshed every 400 ms". Unused tokens vanish:
 *   with any credit beyond M an interval could carry more than the contract.
 * - len is the IP total length, of every IP packet alike: what the paper's rate, 740 kB/s, and a
 *   router's queue count too.
 * - flow: r = 40 packets/s and sigma = 20 packets in the paper, thus M = 20 packets and
 *   T = sigma / r = 500 ms. A pool starts full, or a new flow would need half a second to be let
 *   in.
 * - A flow without a record is a flow with a full pool. So a record may be given up as soon as its
 *   flow has been quiet for T; if all are needed, the least recently used goes first. It is
 *   counted as evicted if its pool was not full: else nothing is lost with it.
 * - Ticks are caught up when a packet comes: many missed ones fill the pool as one does.
 *
 * Fixed point: a pool is tokens + remainder / T, with T in ns. In dt < T it earns
 *
 *	dt M / T + remainder / T = q + r / T
 *	q, r = quotient and remainder of (dt M + remainder) by T
 *
 * exactly: nothing is lost between packets, however close they are, so that the rate is M / T over
 * any time. As T < 2^32 and M < 2^31, dt M + remainder < 2^63 + 2^32. In dt >= T it earns M or more
 * and is full. Comparing len with tokens alone is comparing it with the whole, as len is an
 * integer.
 */
#ifndef NET_TOKEN_MARKER_H
#define NET_TOKEN_MARKER_H

#include <linux/math64.h>
#include <linux/types.h>

#include <net/flow_key.h>
#include <net/flow_table.h>

enum token_marker_mode {
	TOKEN_MARKER_RESET,
	TOKEN_MARKER_CONTINUOUS,
	TOKEN_MARKER_FLOW,
};

enum token_marker_verdict {
	TOKEN_MARKER_OUT,
	TOKEN_MARKER_IN,
};

struct token_marker_params {
	enum token_marker_mode mode;
	u32 interval;		/* ns, not 0 */
	u32 tokens;		/* bytes, below 2^31 */
};

struct token_marker_pool {
	u64 filled;		/* ns; reset: the last tick */
	u32 tokens;		/* bytes */
	u32 remainder;		/* bytes / interval, below 1 byte */
};

struct token_marker_flow {
	struct flow_entry entry;
	struct token_marker_pool pool;
};

struct token_marker_vars {
	struct token_marker_pool pool;	/* reset and continuous */
	struct flow_hash hash;		/* flow */
	struct flow_table flows;	/* flow: of struct token_marker_flow, ordered */
};

struct token_marker_stats {
	u64 in_packets;
	u64 in_bytes;
	u64 out_packets;
	u64 out_bytes;
	u64 evicted;		/* flows whose pool was not full */
};

static inline void token_marker_fill(const struct token_marker_params *p,
				     struct token_marker_pool *pool)
{
	pool->tokens = p->tokens;
	pool->remainder = 0;
}

/* Everything is full at now, which is t0. Also after a change of mode or interval. */
static inline void token_marker_start(const struct token_marker_params *p,
				      struct token_marker_vars *v, u64 now)
{
	token_marker_fill(p, &v->pool);
	v->pool.filled = now;
	if (p->mode == TOKEN_MARKER_FLOW)
		flow_table_clear(&v->flows);
}

/* Bring a pool to the last tick before now, or at it. A clock that is behind changes nothing. */
static inline void token_marker_tick(const struct token_marker_params *p,
				     struct token_marker_pool *pool, u64 now)
{
	u64 elapsed = now - pool->filled;
	u32 since_tick;

	if ((s64)elapsed < (s64)p->interval)
		return;
	div_u64_rem(elapsed, p->interval, &since_tick);
	pool->filled = now - since_tick;
	token_marker_fill(p, pool);
}

/* Bring a pool that fills continuously to now. A clock that is behind changes nothing. */
static inline void token_marker_earn(const struct token_marker_params *p,
				     struct token_marker_pool *pool, u64 now)
{
	u64 elapsed = now - pool->filled, tokens;

	if ((s64)elapsed < 0)
		return;
	pool->filled = now;
	if (elapsed < p->interval) {
		tokens = elapsed * p->tokens + pool->remainder;
		tokens = pool->tokens + div_u64_rem(tokens, p->interval, &pool->remainder);
		if (tokens < p->tokens) {
			pool->tokens = (u32)tokens;
			return;
		}
	}
	token_marker_fill(p, pool);
}

/* Give up the record of the flow that was quiet for longest. */
static inline void token_marker_evict(const struct token_marker_params *p,
				      struct token_marker_vars *v, struct token_marker_stats *s,
				      u64 now)
{
	u32 oldest = flow_table_oldest(&v->flows);
	struct token_marker_flow *flow = flow_table_record(&v->flows, oldest);

	token_marker_earn(p, &flow->pool, now);
	if (flow->pool.tokens < p->tokens)
		s->evicted++;
	flow_table_remove(&v->flows, oldest);
}

/* The pool of a flow: full if the flow is new. */
static inline struct token_marker_pool *token_marker_find(const struct token_marker_params *p,
							  struct token_marker_vars *v,
							  struct token_marker_stats *s,
							  const struct flow_key *key, u64 now)
{
	u32 hash = flow_key_hash(&v->hash, key), i = flow_table_find(&v->flows, key, hash);
	struct token_marker_flow *flow;

	if (i != FLOW_TABLE_NONE) {
		flow_table_touch(&v->flows, i);
		flow = flow_table_record(&v->flows, i);
		return &flow->pool;
	}
	i = flow_table_insert(&v->flows, key, hash);
	if (i == FLOW_TABLE_NONE) {
		token_marker_evict(p, v, s, now);
		i = flow_table_insert(&v->flows, key, hash);
	}
	flow = flow_table_record(&v->flows, i);
	flow->pool.filled = now;
	token_marker_fill(p, &flow->pool);
	return &flow->pool;
}

/* Judge a packet of len bytes, IP total length. key is asked for in the mode flow alone. */
static inline enum token_marker_verdict token_marker(const struct token_marker_params *p,
						     struct token_marker_vars *v,
						     struct token_marker_stats *s,
						     const struct flow_key *key, u32 len, u64 now)
{
	struct token_marker_pool *pool = &v->pool;

	if (p->mode == TOKEN_MARKER_FLOW)
		pool = token_marker_find(p, v, s, key, now);
	if (p->mode == TOKEN_MARKER_RESET)
		token_marker_tick(p, pool, now);
	else
		token_marker_earn(p, pool, now);

	if (pool->tokens < len) {
		s->out_packets++;
		s->out_bytes += len;
		return TOKEN_MARKER_OUT;
	}
	pool->tokens -= len;
	s->in_packets++;
	s->in_bytes += len;
	return TOKEN_MARKER_IN;
}

#endif /* NET_TOKEN_MARKER_H */
