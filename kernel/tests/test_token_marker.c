// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/token_marker.h. */
#include <stdlib.h>

#include "check.h"

#include <linux/limits.h>
#include <net/token_marker.h>

#define MS 1000000ULL
#define T0 (1000000000 * 1000000000ULL)	/* any instant */

static struct token_marker_vars vars;
static struct token_marker_stats stats;
static struct flow_key keys[8];

static void start(const struct token_marker_params *p, u32 flows)
{
	free(vars.flows.records);
	memset(&vars, 0, sizeof(vars));
	memset(&stats, 0, sizeof(stats));
	flow_hash_init(&vars.hash, 1);
	if (flows) {
		u32 bytes = sizeof(struct token_marker_flow);

		flow_table_init(&vars.flows, calloc(1, flow_table_bytes(flows, bytes, true)), flows,
				bytes, true);
	}
	token_marker_start(p, &vars, T0);
}

struct packet {
	u64 at;		/* ns after the start */
	u32 len;
	u32 in;
	u32 tokens;	/* left over */
	u32 remainder;
	u32 flow;
};

static void run(const struct token_marker_params *p, const struct packet *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct flow_key *key = &keys[rows[i].flow];
		struct token_marker_pool *pool = &vars.pool;
		u64 in = stats.in_packets, in_bytes = stats.in_bytes;
		u64 out = stats.out_packets, out_bytes = stats.out_bytes;

		ROW("row %zu", i);
		CHECK_EQ(token_marker(p, &vars, &stats, key, rows[i].len, T0 + rows[i].at),
			 rows[i].in ? TOKEN_MARKER_IN : TOKEN_MARKER_OUT);
		if (p->mode == TOKEN_MARKER_FLOW)
			pool = &((struct token_marker_flow *)flow_table_record(
					 &vars.flows, flow_table_find(&vars.flows, key,
						 flow_key_hash(&vars.hash, key))))->pool;
		CHECK_EQ(pool->tokens, rows[i].tokens);
		CHECK_EQ(pool->remainder, rows[i].remainder);
		CHECK_EQ(stats.in_packets - in, rows[i].in);
		CHECK_EQ(stats.in_bytes - in_bytes, rows[i].in ? rows[i].len : 0);
		CHECK_EQ(stats.out_packets - out, !rows[i].in);
		CHECK_EQ(stats.out_bytes - out_bytes, rows[i].in ? 0 : rows[i].len);
	}
}

#define RUN_ROWS(params, rows) run(params, rows, sizeof(rows) / sizeof(*(rows)))

static void reset_below_at_and_above_the_pool(void)
{
	static const struct token_marker_params p = { TOKEN_MARKER_RESET, 400 * MS, 3000 };
	static const struct packet rows[] = {
		{ 0, 1000, 1, 2000, 0, 0 },
		{ 0, 2001, 0, 2000, 0, 0 },	/* one byte too long: takes nothing */
		{ 1, 2000, 1, 0, 0, 0 },	/* the last ones */
		{ 2, 1, 0, 0, 0, 0 },
		{ 2, 0, 1, 0, 0, 0 },
		{ 400 * MS - 1, 1, 0, 0, 0, 0 },
		{ 400 * MS, 1, 1, 2999, 0, 0 },	/* at the tick */
		{ 800 * MS, 3000, 1, 0, 0, 0 },	/* what was left has vanished */
		{ 799 * MS, 1, 0, 0, 0, 0 },	/* a clock that is behind */
		{ 0, 1, 0, 0, 0, 0 },
		{ 1199 * MS, 1, 0, 0, 0, 0 },
		{ 1999 * MS, 3000, 1, 0, 0, 0 },	/* ticks were missed: one fill, at 1600 */
		{ 1999 * MS, 3001, 0, 0, 0, 0 },
		{ 2000 * MS - 1, 1, 0, 0, 0, 0 },
		{ 2000 * MS, 3001, 0, 3000, 0, 0 },	/* longer than any pool */
		{ 1000000001ULL * 400 * MS + 7, 1000, 1, 2000, 0, 0 },	/* a billion ticks */
		{ 1000000002ULL * 400 * MS - 1, 1, 1, 1999, 0, 0 },
		{ 1000000002ULL * 400 * MS, 1, 1, 2999, 0, 0 },
	};

	start(&p, 0);
	RUN_ROWS(&p, rows);
}

/* 3 bytes in 7 ns: 3 dt = 7 q + r. */
static void continuous_loses_nothing(void)
{
	static const struct token_marker_params p = { TOKEN_MARKER_CONTINUOUS, 7, 3 };
	static const struct packet rows[] = {
		{ 0, 3, 1, 0, 0, 0 },
		{ 1, 1, 0, 0, 3, 0 },
		{ 2, 1, 0, 0, 6, 0 },
		{ 2, 1, 0, 0, 6, 0 },
		{ 3, 1, 1, 0, 2, 0 },
		{ 2, 1, 0, 0, 2, 0 },	/* a clock that is behind */
		{ 4, 1, 0, 0, 5, 0 },
		{ 5, 2, 0, 1, 1, 0 },
		{ 5, 1, 1, 0, 1, 0 },
		{ 11, 3, 0, 2, 5, 0 },
		{ 12, 4, 0, 3, 0, 0 },	/* 2 + 8/7: full */
		{ 13, 2, 1, 1, 0, 0 },
		{ 19, 4, 0, 3, 0, 0 },	/* one ns less than the interval */
		{ 19, 3, 1, 0, 0, 0 },
		{ 26, 3, 1, 0, 0, 0 },	/* the interval, exactly */
		{ 34, 3, 1, 0, 0, 0 },	/* longer: no credit */
		{ 1 * MS, 3, 1, 0, 0, 0 },
		{ 1 * MS, 1, 0, 0, 0, 0 },
	};

	start(&p, 0);
	RUN_ROWS(&p, rows);
}

/* The largest pool and interval that there are. */
static void continuous_at_the_limits(void)
{
	static const struct token_marker_params p = {
		TOKEN_MARKER_CONTINUOUS, 4000000000U, S32_MAX,
	};
	static const struct packet rows[] = {
		{ 0, S32_MAX, 1, 0, 0, 0 },
		/* (2^31 - 1) (4e9 - 1) = 4e9 (2^31 - 2) + 4e9 - (2^31 - 1) */
		{ 3999999999ULL, 0, 1, S32_MAX - 1, 4000000000U - S32_MAX, 0 },
		{ 4000000000ULL, S32_MAX, 1, 0, 0, 0 },
		{ 1ULL << 62, U32_MAX, 0, S32_MAX, 0, 0 },
		{ 1ULL << 62, 1, 1, S32_MAX - 1, 0, 0 },
	};

	start(&p, 0);
	RUN_ROWS(&p, rows);
}

/* A change of tokens holds from the next tick on, or from the next packet. */
static void a_smaller_pool(void)
{
	struct token_marker_params p = { TOKEN_MARKER_RESET, 400 * MS, 3000 };

	start(&p, 0);
	p.tokens = 1000;
	CHECK_EQ(token_marker(&p, &vars, &stats, keys, 1500, T0), TOKEN_MARKER_IN);
	CHECK_EQ(vars.pool.tokens, 1500);
	CHECK_EQ(token_marker(&p, &vars, &stats, keys, 1, T0 + 400 * MS), TOKEN_MARKER_IN);
	CHECK_EQ(vars.pool.tokens, 999);

	p.mode = TOKEN_MARKER_CONTINUOUS;
	p.tokens = 100;
	CHECK_EQ(token_marker(&p, &vars, &stats, keys, 101, T0 + 400 * MS), TOKEN_MARKER_OUT);
	CHECK_EQ(vars.pool.tokens, 100);
}

static void each_flow_its_own(void)
{
	static const struct token_marker_params p = { TOKEN_MARKER_FLOW, 500 * MS, 20000 };
	static const struct packet rows[] = {
		{ 0, 20000, 1, 0, 0, 0 },
		{ 0, 1000, 0, 0, 0, 0 },
		{ 0, 1000, 1, 19000, 0, 1 },		/* starts full */
		{ 25 * MS, 1000, 1, 0, 0, 0 },		/* 40 packets/s */
		{ 50 * MS - 1, 1000, 0, 999, 499980000, 0 },
		{ 50 * MS, 1000, 1, 0, 0, 0 },
		{ 50 * MS, 20001, 0, 20000, 0, 1 },
		{ 550 * MS, 20000, 1, 0, 0, 0 },
		{ 550 * MS, 20000, 1, 0, 0, 1 },
	};

	start(&p, 4);
	RUN_ROWS(&p, rows);
	CHECK_EQ(vars.flows.count, 2);
	CHECK_EQ(stats.evicted, 0);
}

static void the_least_recently_used_makes_room(void)
{
	static const struct token_marker_params p = { TOKEN_MARKER_FLOW, 500 * MS, 1000 };
	static const struct packet rows[] = {
		{ 0, 1000, 1, 0, 0, 0 },
		{ 1, 1000, 1, 0, 0, 1 },
		{ 1, 1000, 1, 0, 0, 2 },
		{ 1, 1000, 0, 0, 1000, 0 },	/* 1 is the oldest now */
		{ 2, 1000, 1, 0, 0, 3 },
		{ 2, 1000, 1, 0, 0, 1 },	/* forgotten, thus full; 2 goes */
		{ 2, 1000, 0, 0, 2000, 0 },
		{ 2, 1000, 0, 0, 0, 3 },
		{ 3, 1000, 1, 0, 0, 2 },
	};

	start(&p, 3);
	RUN_ROWS(&p, rows);
	CHECK_EQ(vars.flows.count, 3);
	CHECK_EQ(stats.evicted, 3);
	CHECK_EQ(vars.flows.fresh, 3);

	token_marker_start(&p, &vars, T0 + 4);
	CHECK_EQ(vars.flows.count, 0);
	CHECK_EQ(token_marker(&p, &vars, &stats, keys, 1000, T0 + 4), TOKEN_MARKER_IN);
}

/* A full pool is what a flow without a record has: nothing is lost with the record. */
static void only_what_still_lacks_tokens_is_evicted(void)
{
	static const struct token_marker_params p = { TOKEN_MARKER_FLOW, 500 * MS, 1000 };
	static const struct {
		u64 after;	/* ns since the flow's one packet */
		u32 len;
		u32 evicted;
	} rows[] = {
		{ 0, 1, 1 },
		{ MS / 2 - 1, 1, 1 },		/* 1 byte takes half a ms */
		{ MS / 2, 1, 0 },
		{ 250 * MS - 1, 500, 1 },
		{ 250 * MS, 500, 0 },
		{ 500 * MS - 1, 1000, 1 },
		{ 500 * MS, 1000, 0 },
		{ 1ULL << 62, 1000, 0 },
		{ 0, 1001, 0 },			/* OUT: it took nothing */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ROW("row %zu", i);
		start(&p, 1);
		token_marker(&p, &vars, &stats, &keys[0], rows[i].len, T0);
		token_marker(&p, &vars, &stats, &keys[1], 40, T0 + rows[i].after);
		CHECK_EQ(stats.evicted, rows[i].evicted);
		CHECK_EQ(vars.flows.count, 1);
		CHECK(flow_table_find(&vars.flows, &keys[0], flow_key_hash(&vars.hash, &keys[0])) ==
		      FLOW_TABLE_NONE);
	}
}

int main(void)
{
	for (u32 i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		u8 addresses[8] = { 10, 0, 0, (u8)i, 10, 0, 3, 2 };

		flow_key_ipv4(&keys[i], 6, addresses);
	}
	RUN(reset_below_at_and_above_the_pool);
	RUN(continuous_loses_nothing);
	RUN(continuous_at_the_limits);
	RUN(a_smaller_pool);
	RUN(each_flow_its_own);
	RUN(the_least_recently_used_makes_room);
	RUN(only_what_still_lacks_tokens_is_evicted);
	free(vars.flows.records);
	return check_finish();
}
