// SPDX-License-Identifier: GPL-2.0
/* Algorithm 1 by hand: estimates, who takes part, who is tiny, shares and spacing. */
#include <net/tcpf_allocation.h>

#include "tcpf_case.h"

#define NONE (~0ULL)

/* A flow that has sent so much in the interval, with a window of so many bytes. */
static struct tcpf_flow *add(u32 flow, u32 sent, u32 window)
{
	u32 index = make(flow, 0, T0);
	struct tcpf_flow *f = tcpf_flow(&marker, index);

	f->sent = sent;
	f->mss = 1000;
	f->window = (u64)window << TCPF_WINDOW_SHIFT;
	tcpf_activate(&marker, index);
	return f;
}

static void estimates(void)
{
	static const struct {
		bool paper, ticked;
		u32 estimate, sent, window;
		bool takes_part, tiny;
		u32 then, demand;
	} table[] = {
		/* the first tick */
		{ false, false, 0, 5000, 0, true, true, 5000, 5000 },
		{ false, false, 0, 0, 0, false, false, 0, 0 },
		/* gain 1/2, rounded down; the larger for tiny flows (r20) */
		{ false, true, 5000, 7001, 3999, true, true, 6000, 7001 },
		{ false, true, 7001, 5000, 3999, true, true, 6000, 6000 },
		{ true, true, 5000, 7001, 3999, true, true, 6000, 6000 },
		/* K * MSS is not tiny */
		{ false, true, 5000, 7001, 4000, true, false, 6000, 6000 },
		{ false, true, 5000, 7001, 4001, true, false, 6000, 6000 },
		/* an idle flow takes part while E >= MSS */
		{ false, true, 2000, 0, 0, true, true, 1000, 1000 },
		{ false, true, 2001, 0, 0, true, true, 1000, 1000 },
		{ false, true, 1999, 0, 0, false, false, 999, 0 },
		/* a few bytes suffice */
		{ false, true, 0, 60, 0, true, true, 30, 60 },
		{ false, true, ~0U, ~0U, 5000, true, false, ~0U, ~0U },
	};
	u32 row;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		struct tcpf_flow *f;

		ROW("row %u", row);
		start(100000, table[row].paper, false, 2);
		f = add(1, table[row].sent, table[row].window);
		f->ticked = table[row].ticked;
		f->estimate = table[row].estimate;
		CHECK_EQ(tcpf_estimate(&params, f), table[row].takes_part);
		CHECK_EQ(f->estimate, table[row].then);
		CHECK_EQ(f->sent, 0);
		if (!table[row].takes_part)
			continue;
		CHECK_EQ(f->tiny, table[row].tiny);
		CHECK_EQ(f->demand, table[row].demand);
	}
}

/* S = E / share - 1 in Q32.32, never more than that; r2, r4. */
static void allocations(void)
{
	static const struct {
		bool paper;
		u32 estimate, share;
		s64 in_count;
		u64 count;
		u64 spacing, then;
		s64 in_count_then;
	} table[] = {
		{ false, 3000, 3000, 0, 0, 0, 0, 3000 },
		{ false, 3000, 4000, 500, 0, 0, 0, 4000 },
		{ false, 3000, 2000, -700, 0, TCPF_ONE / 2, 0, 1300 },
		{ true, 3000, 2000, -700, 0, TCPF_ONE / 2, 0, 2000 },
		{ false, 3000, 1000, 0, 0, 2 * TCPF_ONE, 0, 1000 },
		/* 4 / 3 - 1, rounded down */
		{ false, 4000, 3000, 0, 0, TCPF_ONE / 3, 0, 3000 },
		{ false, ~0U, 1, 0, 0, (~0ULL << 32) - TCPF_ONE, 0, 1 },
		/* count is at most S + 1 */
		{ false, 3000, 2000, 0, 3 * TCPF_ONE / 2 - 1, TCPF_ONE / 2, 3 * TCPF_ONE / 2 - 1,
		  2000 },
		{ false, 3000, 2000, 0, 3 * TCPF_ONE / 2, TCPF_ONE / 2, 3 * TCPF_ONE / 2, 2000 },
		{ false, 3000, 2000, 0, 9 * TCPF_ONE, TCPF_ONE / 2, 3 * TCPF_ONE / 2, 2000 },
		/* nothing to share: at most 1, and the spacing does not matter */
		{ false, 3000, 0, 50, 9 * TCPF_ONE, NONE, TCPF_ONE, 0 },
		{ false, 3000, 0, -50, TCPF_ONE / 2, NONE, TCPF_ONE / 2, -50 },
		{ true, 3000, 0, -50, 0, NONE, 0, 0 },
	};
	u32 row;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		struct tcpf_flow *f;

		ROW("row %u", row);
		start(100000, table[row].paper, false, 2);
		f = add(1, 0, 0);
		f->estimate = table[row].estimate;
		f->in_count = table[row].in_count;
		f->count = table[row].count;
		tcpf_allocate(&params, f, table[row].share);
		CHECK(f->ticked);
		CHECK_EQ(f->in_count, table[row].in_count_then);
		CHECK_EQ(f->count, table[row].then);
		if (table[row].spacing != NONE)
			CHECK_EQ(f->spacing, table[row].spacing);
	}
}

static void tick(u64 at)
{
	tcpf_tick(&params, &marker, at);
}

/* Tokens below, at and above what tiny flows ask for (r18, r19), and above what all do. */
static void shares(void)
{
	static const struct {
		u32 tokens;
		u32 debt;
		s64 in_count[4];
		u32 spare;
	} table[] = {
		/* flows 1 and 2 are tiny and ask for 2000 and 6000, 3 and 4 for 10000 and 30000 */
		{ 1000, 0, { 500, 500, 0, 0 }, 0 },
		{ 7999, 0, { 2000, 5999, 0, 0 }, 0 },
		{ 8000, 0, { 2000, 6000, 0, 0 }, 0 },
		{ 8001, 0, { 2000, 6000, 0, 0 }, 1 },
		{ 8002, 0, { 2000, 6000, 1, 1 }, 0 },
		{ 33000, 0, { 2000, 6000, 10000, 15000 }, 0 },
		{ 48000, 0, { 2000, 6000, 10000, 30000 }, 0 },
		{ 48001, 0, { 2000, 6000, 10000, 30000 }, 1 },
		{ 60000, 12000, { 2000, 6000, 10000, 30000 }, 0 },
		{ 60000, 30000, { 2000, 6000, 10000, 12000 }, 0 },
		/* more debt than there are tokens, of which there were more before */
		{ 1000, 5000, { 0, 0, 0, 0 }, 0 },
	};
	static const u32 sent[4] = { 2000, 6000, 10000, 30000 };
	static const u32 window[4] = { 0, 3999, 4000, 50000 };
	struct tcpf_flow *f[4];
	u32 row, i;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("row %u", row);
		start(table[row].tokens, false, false, 4);
		for (i = 0; i < 4; i++)
			f[i] = add(i, sent[i], window[i]);
		marker.debt = table[row].debt;
		tick(T0 + INTERVAL);
		for (i = 0; i < 4; i++)
			CHECK_EQ(f[i]->in_count, table[row].in_count[i]);
		CHECK_EQ(marker.spare, table[row].spare);
		CHECK_EQ(marker.debt, 0);
		CHECK_EQ(marker.tiny_flows, 2);
		CHECK_EQ(marker.stats.ticks, 1);
		check_active(4);
	}
	ROW("spacing");
	CHECK_EQ(marker.pool, 0);
	start(33000, false, false, 4);
	for (i = 0; i < 4; i++)
		f[i] = add(i, sent[i], window[i]);
	tick(T0 + INTERVAL);
	CHECK_EQ(marker.pool, 33000);
	CHECK_EQ(f[0]->spacing, 0);
	CHECK_EQ(f[2]->spacing, 0);
	CHECK_EQ(f[3]->spacing, TCPF_ONE);
}

static void taking_part(void)
{
	struct tcpf_flow *silent, *busy;
	u32 k;

	start(100000, false, false, 4);
	silent = add(1, 8000, 0);
	busy = add(2, 8000, 0);
	tick(T0 + INTERVAL);
	silent->in_count = -300;
	for (k = 0; k < 3; k++) {
		busy->sent = 8000;
		tick(T0 + (2 + k) * INTERVAL);
		ROW("tick %u", k);
		check_active(2);
		CHECK_EQ(silent->estimate, 4000U >> k);
		CHECK_EQ(silent->in_count, (4000 >> k) - (k == 0 ? 300 : 0));
	}
	ROW("it takes part no longer");
	silent->in_count = -300;
	busy->sent = 8000;
	tick(T0 + 5 * INTERVAL);
	check_active(1);
	CHECK(!silent->ticked);
	CHECK_EQ(silent->estimate, 0);
	CHECK_EQ(silent->in_count, -300);
	ROW("it comes back like a new flow");
	silent->sent = 5000;
	tcpf_activate(&marker, look_up(1));
	tick(T0 + 6 * INTERVAL);
	CHECK_EQ(silent->estimate, 5000);
	CHECK_EQ(silent->in_count, 4700);
}

static void closed_flows(void)
{
	struct tcpf_flow *f;

	start(100000, false, false, 4);
	add(1, 50000, 0);
	f = add(2, 100, 0);
	add(3, 50000, 5000);
	tcpf_end(&marker, look_up(2), TCPF_RESET, T0 + 1);
	tick(T0 + INTERVAL);
	check_active(3);
	CHECK_EQ(f->in_count, 100);
	ROW("it asks for nothing, and waits for its end");
	tick(T0 + 2 * INTERVAL);
	check_active(3);
	CHECK_EQ(f->in_count, 0);
	CHECK_EQ(f->demand, 0);
	CHECK(!f->tiny);
	CHECK_EQ(marker.stats.expired, 0);
	tick(T0 + 3 * INTERVAL);
	check_active(2);
	CHECK_EQ(look_up(2), FLOW_TABLE_NONE);
	CHECK_EQ(marker.stats.expired, 1);
	ROW("exactly two intervals");
	tcpf_end(&marker, look_up(1), TCPF_RESET, T0 + 4 * INTERVAL);
	tick(T0 + 6 * INTERVAL - 1);
	check_active(2);
	tick(T0 + 6 * INTERVAL);
	check_active(1);
}

static void time_passes(void)
{
	u64 ticks;

	start(10000, false, false, 4);
	add(1, 8000, 0);
	tcpf_advance(&params, &marker, T0 + INTERVAL - 1);
	CHECK_EQ(marker.stats.ticks, 0);
	tcpf_advance(&params, &marker, T0 + INTERVAL);
	CHECK_EQ(marker.stats.ticks, 1);
	CHECK_EQ(marker.next_tick, T0 + 2 * INTERVAL);
	CHECK_EQ(marker.spare, 2000);
	ROW("two at once");
	tcpf_advance(&params, &marker, T0 + 4 * INTERVAL - 1);
	CHECK_EQ(marker.stats.ticks, 3);
	CHECK_EQ(marker.spare, 8000);
	ROW("a hundred years: nobody is left, and the grid is kept");
	marker.debt = 5000;
	ticks = 100ULL * 365 * 86400 * 10 / 4;
	tcpf_advance(&params, &marker, T0 + ticks * INTERVAL + 1);
	CHECK_EQ(marker.stats.ticks, ticks);
	CHECK_EQ(marker.next_tick, T0 + (ticks + 1) * INTERVAL);
	CHECK_EQ(marker.spare, 10000);
	CHECK_EQ(marker.pool, 10000);
	CHECK_EQ(marker.flows.count, 0);
	ROW("nobody there, but a debt");
	marker.debt = 3000;
	tcpf_advance(&params, &marker, marker.next_tick);
	CHECK_EQ(marker.spare, 7000);
	marker.debt = 3000;
	tcpf_advance(&params, &marker, marker.next_tick + INTERVAL);
	CHECK_EQ(marker.spare, 10000);
}

/* The largest E lasts 26 ticks with the smallest MSS: after these, no tick does any work. */
static void catching_up_ends(void)
{
	struct tcpf_flow *f;

	start(10000, false, false, 4);
	f = add(1, ~0U, 0);
	f->mss = TCPF_MSS_MIN;
	tcpf_advance(&params, &marker, T0 + 26 * INTERVAL);
	check_active(1);
	CHECK_EQ(f->estimate, 127);
	tcpf_advance(&params, &marker, T0 + 27 * INTERVAL);
	check_active(0);
}

static void changed(void)
{
	struct tcpf_params to;
	u64 now = T0 + INTERVAL + 5;

	start(10000, false, false, 4);
	add(1, 8000, 0);
	tcpf_set_params(&to, INTERVAL, 50000, true, false);
	tcpf_marker_change(&params, &to, &marker, now);
	ROW("what was due goes by the old ones");
	CHECK_EQ(marker.stats.ticks, 1);
	CHECK_EQ(marker.spare, 2000);
	CHECK_EQ(marker.next_tick, T0 + 2 * INTERVAL);
	CHECK_EQ(params.tokens, 50000);
	CHECK(!params.carry);
	ROW("another interval begins now");
	tcpf_set_params(&to, INTERVAL / 4, 50000, true, false);
	tcpf_marker_change(&params, &to, &marker, now);
	CHECK_EQ(marker.next_tick, now + INTERVAL / 4);
	CHECK_EQ(marker.flows.count, 1);
	ROW("of fewer tokens debt takes half at most");
	marker.debt = 20000;
	tcpf_set_params(&to, INTERVAL / 4, 1000, true, false);
	tcpf_marker_change(&params, &to, &marker, now);
	CHECK_EQ(marker.debt, 500);
}

int main(void)
{
	RUN(estimates);
	RUN(allocations);
	RUN(shares);
	RUN(taking_part);
	RUN(closed_flows);
	RUN(time_passes);
	RUN(catching_up_ends);
	RUN(changed);
	stop();
	return check_finish();
}
