// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/fred.h. */
#include "check.h"

#include <linux/limits.h>
#include <net/fred.h>

#define ROWS(rows) (sizeof(rows) / sizeof(*(rows)))

/* min 10000, max 20000, a packet 1000 and minq 2 of them. */
static struct fred_params params(u8 share, bool many_flows, u8 ewma)
{
	struct fred_params p = {
		.packet = 1000,
		.minq = 2000,
		.share = share,
		.many_flows = many_flows,
	};

	queue_average_set_params(&p.average, ewma, 1000, 1250000);
	early_drop_set_params(&p.drop, 10000, 20000, 1U << 30, EARLY_DROP_UNIFORMIZE_RED, ewma);
	return p;
}

static struct fred_vars view(const struct fred_params *p, u32 average, u32 backlog, u32 flows)
{
	struct fred_vars v;

	fred_init(&v, 0);
	v.average.scaled = (u64)average << p->average.ewma;
	v.drop.count = 7;
	v.backlog = backlog;
	v.flows = flows;
	return v;
}

static void a_new_view_is_empty(void)
{
	struct fred_vars v;

	fred_init(&v, 17);
	CHECK_EQ(v.backlog, 0);
	CHECK_EQ(v.flows, 0);
	CHECK_EQ(v.average.scaled, 0);
	CHECK_EQ(v.average.idle_since, 17);
	CHECK_EQ(v.drop.count, -1);
}

struct row {
	u32 average, backlog, flows;	/* of the view */
	u32 qlen, strikes;		/* of the flow */
	enum fred_verdict verdict;
	u32 count;			/* afterwards; 7 before */
};

static void judge_rows(const struct fred_params *p, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct fred_vars v = view(p, rows[i].average, rows[i].backlog, rows[i].flows);
		struct fred_flow flow = { rows[i].qlen, rows[i].strikes };
		bool strike = rows[i].verdict == FRED_STRIKE;

		ROW("row %zu", i);
		CHECK_EQ(fred_judge(p, &v, &flow), rows[i].verdict);
		CHECK_EQ((u32)v.drop.count, rows[i].count);
		CHECK_EQ(flow.strikes, rows[i].strikes + strike);
		CHECK_EQ(flow.qlen, rows[i].qlen);
		CHECK_EQ(v.backlog, rows[i].backlog);
		CHECK_EQ(v.flows, rows[i].flows);
	}
}

static void the_zones_without_anything_against_the_flow(void)
{
	static const struct row rows[] = {
		{ 0, 0, 0, 0, 0, FRED_ENQUEUE, -1 },
		{ 9999, 9000, 9, 1000, 0, FRED_ENQUEUE, -1 },
		{ 10000, 9000, 9, 1000, 0, FRED_ENQUEUE, 8 },
		{ 19999, 9000, 9, 1000, 0, FRED_ENQUEUE, 8 },
		{ 20000, 9000, 9, 1000, 0, FRED_FORCED, 0 },
		{ 4000000, 9000, 9, 0, 0, FRED_FORCED, 0 },
	};
	struct fred_params p = params(FRED_SHARE_INSTANT, false, 9);

	judge_rows(&p, rows, ROWS(rows));
}

static void a_flow_may_queue_min_bytes_and_two_packets_above_max(void)
{
	static const struct row rows[] = {
		{ 0, 90000, 2, 9999, 0, FRED_ENQUEUE, -1 },
		{ 0, 90000, 2, 10000, 0, FRED_STRIKE, 7 },
		{ 15000, 90000, 2, 9999, 0, FRED_ENQUEUE, 8 },
		{ 19999, 90000, 2, 10000, 0, FRED_STRIKE, 7 },
		{ 20000, 90000, 2, 1999, 0, FRED_FORCED, 0 },
		{ 20000, 90000, 2, 2000, 0, FRED_STRIKE, 7 },
		{ 20000, 90000, 90, 1999, 5, FRED_STRIKE, 7 },	/* share is 1000 */
		{ 20000, 90000, 2, 1999, 5, FRED_FORCED, 0 },	/* share is 45000 */
	};
	struct fred_params p = params(FRED_SHARE_INSTANT, false, 9);

	judge_rows(&p, rows, ROWS(rows));
}

static void after_two_strikes_a_flow_gets_its_share_and_no_more(void)
{
	static const struct row rows[] = {
		{ 0, 9001, 3, 3001, 0, FRED_ENQUEUE, -1 },
		{ 0, 9001, 3, 3001, 1, FRED_ENQUEUE, -1 },
		{ 0, 9001, 3, 3001, 2, FRED_STRIKE, 7 },
		{ 0, 9001, 3, 3000, 2, FRED_ENQUEUE, -1 },	/* 3000 3 < 9001 */
		{ 0, 9000, 3, 3000, 2, FRED_STRIKE, 7 },
		{ 0, 9000, 3, 2999, 2, FRED_ENQUEUE, -1 },
		{ 0, 9000, 90, 999, 2, FRED_ENQUEUE, -1 },	/* one packet at least */
		{ 0, 9000, 90, 1000, 2, FRED_STRIKE, 7 },
		{ 0, 0, 0, 0, 9, FRED_ENQUEUE, -1 },		/* nobody has anything queued */
	};
	struct fred_params p = params(FRED_SHARE_INSTANT, false, 9);

	judge_rows(&p, rows, ROWS(rows));
}

static void at_random_goes_who_has_minq_and_its_share(void)
{
	static const struct row rows[] = {
		{ 15000, 18000, 9, 1999, 0, FRED_ENQUEUE, 8 },
		{ 15000, 18000, 9, 2000, 0, FRED_DRAW, 7 },	/* fred_draw() counts it */
		{ 15000, 18001, 9, 2000, 0, FRED_ENQUEUE, 8 },
		{ 15000, 18001, 9, 2001, 0, FRED_DRAW, 7 },
		{ 15000, 900, 9, 1999, 0, FRED_ENQUEUE, 8 },
		{ 10000, 18000, 9, 2000, 0, FRED_DRAW, 7 },
		{ 9999, 18000, 9, 2000, 0, FRED_ENQUEUE, -1 },
		{ 20000, 18000, 9, 1999, 0, FRED_FORCED, 0 },
	};
	struct fred_params p = params(FRED_SHARE_INSTANT, false, 9);

	judge_rows(&p, rows, ROWS(rows));
}

static void minq_zero_leaves_a_packet_as_the_least_share(void)
{
	static const struct row rows[] = {
		{ 15000, 900, 9, 999, 0, FRED_ENQUEUE, 8 },
		{ 15000, 900, 9, 1000, 0, FRED_DRAW, 7 },
	};
	struct fred_params p = params(FRED_SHARE_INSTANT, false, 9);

	p.minq = 0;
	judge_rows(&p, rows, ROWS(rows));
}

/* The backlog, 90000, would make a share of 30000. */
static void with_share_average_the_average_is_shared(void)
{
	static const struct row rows[] = {
		{ 12000, 90000, 3, 4000, 0, FRED_DRAW, 7 },
		{ 12000, 90000, 3, 3999, 0, FRED_ENQUEUE, 8 },
		{ 12001, 90000, 3, 4000, 0, FRED_ENQUEUE, 8 },
		{ 9000, 90000, 3, 3000, 2, FRED_STRIKE, 7 },
		{ 9000, 90000, 3, 2999, 2, FRED_ENQUEUE, -1 },
		{ 9000, 90000, 90, 1000, 2, FRED_STRIKE, 7 },
		{ 9000, 90000, 90, 999, 2, FRED_ENQUEUE, -1 },
	};
	struct fred_params p = params(FRED_SHARE_AVERAGE, false, 9);

	judge_rows(&p, rows, ROWS(rows));
	p = params(FRED_SHARE_AVERAGE, false, 0);
	judge_rows(&p, rows, ROWS(rows));
	p = params(FRED_SHARE_AVERAGE, false, 31);
	judge_rows(&p, rows, ROWS(rows));
}

/* A fraction of a byte above 12000 is above a third of it. */
static void a_fraction_of_the_average_counts(void)
{
	struct fred_params p = params(FRED_SHARE_AVERAGE, false, 9);
	struct fred_vars v = view(&p, 12000, 90000, 3);

	CHECK(fred_reaches_share(&p, &v, 4000));
	v.average.scaled++;
	CHECK(!fred_reaches_share(&p, &v, 4000));
	v.average.scaled += 511;
	CHECK(!fred_reaches_share(&p, &v, 4000));
	CHECK(fred_reaches_share(&p, &v, 4001));
}

static void with_many_flows_two_packets_each_pass_above_max(void)
{
	static const struct row rows[] = {
		{ 20000, 9000, 9, 0, 0, FRED_ENQUEUE, 7 },
		{ 20000, 9000, 9, 1999, 0, FRED_ENQUEUE, 7 },
		{ 20000, 9000, 9, 2000, 0, FRED_STRIKE, 7 },
		{ 20000, 9000, 9, 1000, 2, FRED_STRIKE, 7 },
		{ 19999, 9000, 9, 2000, 0, FRED_DRAW, 7 },
		{ 9999, 9000, 9, 2000, 0, FRED_ENQUEUE, -1 },
	};
	struct fred_params p = params(FRED_SHARE_INSTANT, true, 9);

	judge_rows(&p, rows, ROWS(rows));
}

static void nothing_wraps_at_the_ends_of_the_integers(void)
{
	struct fred_params p = params(FRED_SHARE_INSTANT, false, 0);
	struct fred_flow flow = { 100000, U32_MAX };
	struct fred_vars v = view(&p, 0, U32_MAX, 65536);

	CHECK(fred_reaches_share(&p, &v, 65536));
	CHECK(!fred_reaches_share(&p, &v, 65535));
	CHECK_EQ(fred_judge(&p, &v, &flow), FRED_STRIKE);
	CHECK_EQ(flow.strikes, U32_MAX);

	p.packet = U32_MAX;	/* 2 packets are beyond 32 bits */
	p.drop.min = U32_MAX;
	v = view(&p, 20000, U32_MAX, 1);
	flow = (struct fred_flow){ U32_MAX - 1, 2 };
	CHECK_EQ(fred_judge(&p, &v, &flow), FRED_FORCED);

	v = view(&p, 15000, 0, 0);
	v.drop.count = EARLY_DROP_MAX_COUNT;
	flow = (struct fred_flow){ 0, 0 };
	CHECK_EQ(fred_judge(&p, &v, &flow), FRED_ENQUEUE);
	CHECK_EQ(v.drop.count, EARLY_DROP_MAX_COUNT);
}

/* At 15000 pb is 1/8, and pa = pb / (1 - count pb). */
static void the_draw_is_that_of_the_early_drop(void)
{
	static const struct {
		s32 count;
		u32 rnd;
		enum fred_verdict verdict;
		s32 after;
	} rows[] = {
		{ -1, 0, FRED_EARLY, 0 },
		{ -1, (1U << 29) - 16, FRED_EARLY, 0 },
		{ -1, (1U << 29) + 16, FRED_ENQUEUE, 0 },
		{ -1, U32_MAX, FRED_ENQUEUE, 0 },
		{ 3, (1U << 30) - 16, FRED_EARLY, 0 },		/* count 4: pa = 1/4 */
		{ 3, (1U << 30) + 16, FRED_ENQUEUE, 4 },
		{ 7, U32_MAX, FRED_EARLY, 0 },			/* count 8: count pb = 1 */
	};
	struct fred_params p = params(FRED_SHARE_INSTANT, false, 9);

	for (size_t i = 0; i < ROWS(rows); i++) {
		struct fred_vars v = view(&p, 15000, 18000, 9);

		ROW("row %zu", i);
		v.drop.count = rows[i].count;
		CHECK_EQ(fred_draw(&p, &v, rows[i].rnd), rows[i].verdict);
		CHECK_EQ(v.drop.count, rows[i].after);
	}
}

static void flows_are_those_with_packets_and_strikes_end_with_the_last(void)
{
	struct fred_flow a = { 0, 0 }, b = { 0, 0 };
	struct fred_vars v;

	fred_init(&v, 0);
	fred_enqueue(&v, &a, 600);
	CHECK_EQ(v.flows, 1);
	fred_enqueue(&v, &a, 400);
	CHECK_EQ(v.flows, 1);
	CHECK_EQ(a.qlen, 1000);
	fred_enqueue(&v, &b, 1);
	CHECK_EQ(v.flows, 2);
	CHECK_EQ(v.backlog, 1001);
	a.strikes = 3;
	b.strikes = 2;

	fred_dequeue(&v, &a, 400, 50);
	CHECK_EQ(v.flows, 2);
	CHECK_EQ(a.strikes, 3);
	fred_dequeue(&v, &a, 600, 60);
	CHECK_EQ(v.flows, 1);
	CHECK_EQ(a.qlen, 0);
	CHECK_EQ(a.strikes, 0);
	CHECK_EQ(b.strikes, 2);
	CHECK_EQ(v.backlog, 1);
	CHECK_EQ(v.average.idle_since, 0);
	fred_dequeue(&v, &b, 1, 70);
	CHECK_EQ(v.flows, 0);
	CHECK_EQ(v.backlog, 0);
	CHECK_EQ(v.average.idle_since, 70);
}

/* 1/W packet times of 0.8 ms: (1 - W)^512 is 0.3675. */
static void the_average_follows_arrivals_and_ages_while_idle(void)
{
	struct fred_params p = params(FRED_SHARE_INSTANT, false, 9);
	struct fred_vars v = view(&p, 10000, 2000, 1);
	struct fred_flow flow = { 2000, 0 };

	fred_sample(&p, &v, 0);
	CHECK_EQ(v.average.scaled, 10000 * 511 + 2000);
	fred_dequeue(&v, &flow, 2000, 1000);
	CHECK_EQ(v.average.scaled, 10000 * 511 + 2000);
	fred_sample(&p, &v, 1000 + 512 * 800000ULL);
	CHECK_EQ(queue_average_bytes(&p.average, &v.average), 3669);
}

int main(void)
{
	RUN(a_new_view_is_empty);
	RUN(the_zones_without_anything_against_the_flow);
	RUN(a_flow_may_queue_min_bytes_and_two_packets_above_max);
	RUN(after_two_strikes_a_flow_gets_its_share_and_no_more);
	RUN(at_random_goes_who_has_minq_and_its_share);
	RUN(minq_zero_leaves_a_packet_as_the_least_share);
	RUN(with_share_average_the_average_is_shared);
	RUN(a_fraction_of_the_average_counts);
	RUN(with_many_flows_two_packets_each_pass_above_max);
	RUN(nothing_wraps_at_the_ends_of_the_integers);
	RUN(the_draw_is_that_of_the_early_drop);
	RUN(flows_are_those_with_packets_and_strikes_end_with_the_last);
	RUN(the_average_follows_arrivals_and_ages_while_idle);
	return check_finish();
}
