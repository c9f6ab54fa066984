// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/frio.h. */
#include "check.h"

#include <linux/limits.h>
#include <linux/string.h>
#include <net/frio.h>

#define ROWS(rows) (sizeof(rows) / sizeof(*(rows)))

static const struct frio_config papers = {
	.curve = {
		[FRIO_IN] = { 50000, 490000, 21474836 },	/* 0.005 */
		[FRIO_OUT] = { 10000, 200000, 1 << 30 },	/* 0.25 */
	},
	.limit = 500000,
	.minq = 2,
	.flows = 65536,
	.avpkt = 1000,
	.bandwidth = 1250000,
	.ewma = 9,
	.mode = FRIO_COUPLED,
	.share = FRED_SHARE_INSTANT,
	.in = 10,
};

static struct frio_params params(enum frio_mode mode)
{
	struct frio_config config = papers;
	struct frio_params p;

	config.mode = mode;
	frio_set_params(&p, &config);
	return p;
}

/* In one place: what is always inlined would have to be covered wherever it is called. */
static enum fred_verdict arrive(const struct frio_params *p, struct frio_vars *v,
				struct frio_flow *flow, enum frio_class class, u64 now)
{
	return frio_arrival(p, v, flow, class, now);
}

static void what_is_set_reaches_both_views(void)
{
	struct frio_config config = papers;
	struct frio_params p;

	config.mode = FRIO_DECOUPLED;
	config.share = FRED_SHARE_AVERAGE;
	config.many_flows = 1;
	config.minq = 3;
	config.avpkt = 500;
	config.ewma = 4;
	frio_set_params(&p, &config);
	CHECK_EQ(p.limit, 500000);
	CHECK_EQ(p.mode, FRIO_DECOUPLED);
	for (int class = 0; class < FRIO_CLASSES; class++) {
		const struct fred_params *view = &p.view[class];

		ROW("class %d", class);
		CHECK_EQ(view->drop.min, papers.curve[class].min);
		CHECK_EQ(view->drop.max, papers.curve[class].max);
		CHECK_EQ(view->drop.probability, papers.curve[class].probability);
		CHECK_EQ(view->drop.uniformize, EARLY_DROP_UNIFORMIZE_RED);
		CHECK_EQ(view->drop.min_scaled, papers.curve[class].min << 4);
		CHECK_EQ(view->average.ewma, 4);
		CHECK_EQ(view->packet, 500);
		CHECK_EQ(view->minq, 1500);
		CHECK_EQ(view->share, FRED_SHARE_AVERAGE);
		CHECK_EQ(view->many_flows, true);
	}
}

static void a_new_buffer_is_empty(void)
{
	struct frio_params p = params(FRIO_COUPLED);
	struct frio_flow flow = {};
	struct frio_vars v;

	frio_init(&v, 17);
	CHECK_EQ(frio_class_backlog(&p, &v, FRIO_OUT), 0);
	CHECK(frio_flow_empty(&flow));
	for (int class = 0; class < FRIO_CLASSES; class++) {
		CHECK_EQ(v.view[class].average.idle_since, 17);
		CHECK_EQ(v.view[class].flows, 0);
		CHECK(frio_arrival_needs_now(&v, class));
	}
}

static void records_are_for_flows_that_fit_into_the_buffer(void)
{
	static const struct {
		u32 limit, flows, capacity;
	} rows[] = {
		{ 1, 65536, 1 },
		{ 20, 65536, 1 },
		{ 39, 65536, 1 },
		{ 40, 65536, 2 },
		{ 500000, 65536, 25000 },
		{ 500000, 25000, 25000 },
		{ 500000, 24999, 24999 },
		{ 500000, 1, 1 },
		{ U32_MAX, 65536, 65536 },
	};

	for (size_t i = 0; i < ROWS(rows); i++) {
		struct frio_config config = papers;

		ROW("row %zu", i);
		config.limit = rows[i].limit;
		config.flows = rows[i].flows;
		CHECK_EQ(frio_capacity(&config), rows[i].capacity);
	}
}

/* One IN packet of 300 bytes and one OUT packet of 500, of one flow, come and go. */
static void packets_are_in_the_views_of_the_mode(void)
{
	static const struct {
		enum frio_mode mode;
		u32 out_view;
	} rows[] = { { FRIO_COUPLED, 800 }, { FRIO_DECOUPLED, 500 } };

	for (size_t i = 0; i < ROWS(rows); i++) {
		struct frio_params p = params(rows[i].mode);
		struct frio_flow flow = {};
		struct frio_vars v;

		ROW("mode %zu", i);
		frio_init(&v, 0);
		frio_enqueue(&p, &v, &flow, FRIO_IN, 300);
		CHECK_EQ(v.view[FRIO_IN].flows, 1);
		CHECK_EQ(v.view[FRIO_OUT].flows, rows[i].mode == FRIO_COUPLED);
		CHECK_EQ(flow.view[FRIO_OUT].qlen, rows[i].out_view - 500);
		CHECK(!frio_flow_empty(&flow));
		frio_enqueue(&p, &v, &flow, FRIO_OUT, 500);
		CHECK_EQ(v.view[FRIO_IN].backlog, 300);
		CHECK_EQ(v.view[FRIO_OUT].backlog, rows[i].out_view);
		CHECK_EQ(flow.view[FRIO_IN].qlen, 300);
		CHECK_EQ(flow.view[FRIO_OUT].qlen, rows[i].out_view);
		CHECK_EQ(v.view[FRIO_OUT].flows, 1);
		CHECK_EQ(frio_class_backlog(&p, &v, FRIO_IN), 300);
		CHECK_EQ(frio_class_backlog(&p, &v, FRIO_OUT), 500);

		frio_dequeue(&p, &v, &flow, FRIO_IN, 300, 40);
		CHECK_EQ(v.view[FRIO_IN].flows, 0);
		CHECK_EQ(v.view[FRIO_IN].average.idle_since, 40);
		CHECK_EQ(v.view[FRIO_OUT].backlog, 500);
		CHECK_EQ(v.view[FRIO_OUT].average.idle_since, 0);
		CHECK(!frio_flow_empty(&flow));
		frio_dequeue(&p, &v, &flow, FRIO_OUT, 500, 50);
		CHECK_EQ(v.view[FRIO_OUT].flows, 0);
		CHECK_EQ(v.view[FRIO_OUT].average.idle_since, 50);
		CHECK(frio_flow_empty(&flow));
	}
}

/* What an arrival of a class adds to the averages, of 1000 bytes of IN and 2000 of OUT. */
static void an_arrival_is_sampled_in_the_views_of_its_class(void)
{
	static const struct {
		enum frio_mode mode;
		enum frio_class class;
		u32 in, out;
	} rows[] = {
		{ FRIO_COUPLED, FRIO_IN, 1000, 3000 },
		{ FRIO_COUPLED, FRIO_OUT, 0, 3000 },
		{ FRIO_DECOUPLED, FRIO_IN, 1000, 0 },
		{ FRIO_DECOUPLED, FRIO_OUT, 0, 2000 },
	};

	for (size_t i = 0; i < ROWS(rows); i++) {
		struct frio_params p = params(rows[i].mode);
		struct frio_flow flow = {};
		struct frio_vars v;

		ROW("row %zu", i);
		frio_init(&v, 0);
		frio_enqueue(&p, &v, &flow, FRIO_IN, 1000);
		frio_enqueue(&p, &v, &flow, FRIO_OUT, 2000);
		CHECK_EQ(arrive(&p, &v, &flow, rows[i].class, 0), FRED_ENQUEUE);
		CHECK_EQ(v.view[FRIO_IN].average.scaled, rows[i].in);
		CHECK_EQ(v.view[FRIO_OUT].average.scaled, rows[i].out);
	}
}

static void a_packet_fits_up_to_the_limit(void)
{
	static const struct {
		u32 limit, backlog, len;
		bool fits;
	} rows[] = {
		{ 1500, 0, 1500, true },
		{ 1500, 0, 1501, false },
		{ 5000, 4000, 1000, true },
		{ 5000, 4000, 1001, false },
		{ 5000, 7000, 1, false },		/* after a change */
		{ U32_MAX, U32_MAX - 5, 5, true },
		{ U32_MAX, U32_MAX - 5, 6, false },
		{ U32_MAX, U32_MAX - 5, U32_MAX, false },
	};

	for (size_t i = 0; i < ROWS(rows); i++) {
		struct frio_params p = { .limit = rows[i].limit };

		ROW("row %zu", i);
		CHECK_EQ(frio_fits(&p, rows[i].backlog, rows[i].len), rows[i].fits);
	}
}

static void strikes_of_out_do_not_count_against_in(void)
{
	struct frio_params p = params(FRIO_COUPLED);
	struct frio_flow flow = {}, other = {};
	struct frio_vars v;

	frio_init(&v, 0);
	frio_enqueue(&p, &v, &other, FRIO_OUT, 5000);
	for (int i = 0; i < 10; i++)
		frio_enqueue(&p, &v, &flow, FRIO_OUT, 1000);
	for (u32 i = 1; i <= 3; i++) {
		CHECK_EQ(arrive(&p, &v, &flow, FRIO_OUT, 0), FRED_STRIKE);
		CHECK_EQ(flow.view[FRIO_OUT].strikes, i);
	}
	CHECK_EQ(flow.view[FRIO_IN].strikes, 0);
	CHECK_EQ(arrive(&p, &v, &flow, FRIO_IN, 0), FRED_ENQUEUE);
	CHECK_EQ(arrive(&p, &v, &other, FRIO_OUT, 0), FRED_ENQUEUE);

	/* down to 9 of 14: below min, but above its share and known */
	frio_dequeue(&p, &v, &flow, FRIO_OUT, 1000, 0);
	CHECK_EQ(arrive(&p, &v, &flow, FRIO_OUT, 0), FRED_STRIKE);
	for (int i = 0; i < 9; i++)
		frio_dequeue(&p, &v, &flow, FRIO_OUT, 1000, 0);
	CHECK_EQ(flow.view[FRIO_OUT].strikes, 0);
}

static void each_class_has_its_own_curve_and_draws_from_it(void)
{
	struct frio_config config = papers;
	struct frio_flow flow = {};
	struct frio_params p;
	struct frio_vars v;

	config.ewma = 0;
	config.curve[FRIO_IN] = (struct precedence_curve){ 5000, 15000, 1U << 31 };
	config.curve[FRIO_OUT] = (struct precedence_curve){ 6000, 26000, 1U << 30 };
	frio_set_params(&p, &config);
	frio_init(&v, 0);
	for (int i = 0; i < 3; i++) {
		struct frio_flow another = {};

		frio_enqueue(&p, &v, &another, FRIO_IN, 2500);
		frio_enqueue(&p, &v, &another, FRIO_OUT, 1000);
	}
	frio_enqueue(&p, &v, &flow, FRIO_IN, 2500);
	frio_enqueue(&p, &v, &flow, FRIO_OUT, 2000);

	/* IN: 10000 of 5000 to 15000 at 1/2, pb 1/4. */
	/* OUT: 15000 of 6000 to 26000 at 1/4, pb .1125. */
	CHECK_EQ(arrive(&p, &v, &flow, FRIO_IN, 0), FRED_DRAW);
	CHECK_EQ(frio_draw(&p, &v, FRIO_IN, (1U << 30) + 16), FRED_ENQUEUE);
	CHECK_EQ(v.view[FRIO_IN].drop.count, 0);
	CHECK_EQ(v.view[FRIO_OUT].drop.count, -1);
	CHECK_EQ(arrive(&p, &v, &flow, FRIO_OUT, 0), FRED_DRAW);
	CHECK_EQ(frio_draw(&p, &v, FRIO_OUT, 483183820 + 16), FRED_ENQUEUE);
	CHECK_EQ(frio_draw(&p, &v, FRIO_OUT, 483183820 - 16), FRED_EARLY);
	CHECK_EQ(frio_draw(&p, &v, FRIO_IN, U32_MAX), FRED_ENQUEUE);
	CHECK_EQ(v.view[FRIO_IN].drop.count, 1);
	CHECK_EQ(v.view[FRIO_OUT].drop.count, 0);
}

/* Wherever it is not needed, a wrong time must change nothing. */
static void time_is_looked_at_only_where_it_is_asked_for(void)
{
	static const struct {
		u32 in, out;	/* packets of 1000 bytes */
		bool needs_in, needs_out;
	} rows[] = {
		{ 0, 0, true, true },
		{ 1, 0, false, true },
		{ 0, 1, true, false },
		{ 2, 2, false, false },
	};

	for (size_t i = 0; i < ROWS(rows) * FRIO_MODES; i++) {
		struct frio_params p = params(i % FRIO_MODES);
		size_t row = i / FRIO_MODES;

		for (int class = 0; class < FRIO_CLASSES; class++) {
			bool coupled_out = class == FRIO_OUT && p.mode == FRIO_COUPLED;
			u32 queued = class == FRIO_IN ? rows[row].in : rows[row].out;
			struct frio_flow flow = {};
			struct frio_vars v, w;
			bool needs;

			ROW("row %zu, mode %d, class %d", row, p.mode, class);
			frio_init(&v, 0);
			for (u32 k = 0; k < rows[row].in; k++)
				frio_enqueue(&p, &v, &flow, FRIO_IN, 1000);
			for (u32 k = 0; k < rows[row].out; k++)
				frio_enqueue(&p, &v, &flow, FRIO_OUT, 1000);

			needs = class == FRIO_IN ? rows[row].needs_in : rows[row].needs_out;
			needs = needs && !(coupled_out && rows[row].in);
			CHECK_EQ(frio_arrival_needs_now(&v, class), needs);
			w = v;
			arrive(&p, &v, &flow, class, 100);
			arrive(&p, &w, &flow, class, 200);
			CHECK_EQ(memcmp(&v, &w, sizeof(v)) != 0, needs);

			if (!queued)
				continue;
			needs = queued == 1 && !(coupled_out && rows[row].in);
			CHECK_EQ(frio_dequeue_needs_now(&v, class, 1000), needs);
			w = v;
			{
				struct frio_flow same = flow;

				frio_dequeue(&p, &v, &flow, class, 1000, 300);
				frio_dequeue(&p, &w, &same, class, 1000, 400);
			}
			CHECK_EQ(memcmp(&v, &w, sizeof(v)) != 0, needs);
		}
	}
}

static void verdicts_are_counted_by_class(void)
{
	struct frio_stats stats = {};

	frio_count(&stats, FRIO_IN, FRED_STRIKE, 300);
	frio_count(&stats, FRIO_IN, FRED_STRIKE, 400);
	frio_count(&stats, FRIO_OUT, FRED_ENQUEUE, 500);
	CHECK_EQ(stats.count[FRIO_IN][FRED_STRIKE].packets, 2);
	CHECK_EQ(stats.count[FRIO_IN][FRED_STRIKE].bytes, 700);
	CHECK_EQ(stats.count[FRIO_OUT][FRED_ENQUEUE].bytes, 500);
	CHECK_EQ(stats.count[FRIO_OUT][FRED_STRIKE].packets, 0);
	for (int i = 0; i < 2; i++)
		frio_count(&stats, FRIO_IN, FRED_ENQUEUE, U32_MAX);
	CHECK_EQ(stats.count[FRIO_IN][FRED_ENQUEUE].bytes, 2ULL * U32_MAX);
}

static void a_new_weight_keeps_the_averages(void)
{
	struct frio_config config = papers;
	struct frio_params p = params(FRIO_COUPLED);
	struct frio_vars v;

	frio_init(&v, 0);
	v.view[FRIO_IN].backlog = 1000;
	v.view[FRIO_OUT].backlog = 3000;
	v.view[FRIO_IN].average.scaled = 100 << 9;
	v.view[FRIO_OUT].average.scaled = 200 << 9;
	config.ewma = 4;
	config.limit = 1234;
	frio_change_params(&p, &v, &config, 1000000000);
	CHECK_EQ(p.limit, 1234);
	CHECK_EQ(v.view[FRIO_IN].average.scaled, 100 << 4);
	CHECK_EQ(v.view[FRIO_OUT].average.scaled, 200 << 4);
}

/* OUT is queued, IN idles since 0: 512 packets long by the old avpkt, then as long by the new. */
static void a_change_ages_what_idles_by_the_old_configuration(void)
{
	struct frio_config config = papers;
	struct frio_params p = params(FRIO_COUPLED);
	struct frio_flow flow = {};
	struct frio_vars v;

	frio_init(&v, 0);
	v.view[FRIO_OUT].backlog = 3000;
	v.view[FRIO_IN].average.scaled = 10000 << 9;
	v.view[FRIO_OUT].average.scaled = 10000 << 9;
	config.avpkt = 500;
	frio_change_params(&p, &v, &config, 512 * 800000ULL);
	CHECK_EQ(v.view[FRIO_IN].average.scaled >> 9, 3675);
	CHECK_EQ(v.view[FRIO_IN].average.idle_since, 512 * 800000ULL);
	CHECK_EQ(v.view[FRIO_OUT].average.scaled, 10000 << 9);
	CHECK_EQ(v.view[FRIO_OUT].average.idle_since, 0);
	arrive(&p, &v, &flow, FRIO_IN, 512 * 800000ULL + 512 * 400000ULL);
	CHECK_EQ(v.view[FRIO_IN].average.scaled >> 9, 1350);
}

/* Flows with IN, with OUT, with both and with nothing queued; the mode goes there and back. */
static void the_mode_changes_as_if_it_had_always_been_so(void)
{
	static const u32 in[] = { 1000, 0, 1500, 0 }, out[] = { 0, 700, 300, 0 };

	for (int from = 0; from < FRIO_MODES; from++) {
		struct frio_flow flow[4] = {}, expected[4] = {};
		struct frio_params p = params(from), q = params(!from);
		struct frio_vars v, w;

		ROW("from mode %d", from);
		memset(&v, 0, sizeof(v));	/* padding, which memcmp() looks at */
		memset(&w, 0, sizeof(w));
		frio_init(&v, 0);
		frio_init(&w, 0);
		for (int i = 0; i < 3; i++) {
			if (in[i]) {
				frio_enqueue(&p, &v, &flow[i], FRIO_IN, in[i]);
				frio_enqueue(&q, &w, &expected[i], FRIO_IN, in[i]);
			}
			if (out[i]) {
				frio_enqueue(&p, &v, &flow[i], FRIO_OUT, out[i]);
				frio_enqueue(&q, &w, &expected[i], FRIO_OUT, out[i]);
			}
		}
		for (int back = 0; back < 2; back++) {
			frio_change_mode(&p, &v, back ? from : !from, 80);
			for (int i = 0; i < 4; i++)
				frio_change_flow_mode(&v, &flow[i], back ? from : !from);
			if (back)
				break;
			CHECK_EQ(p.mode, !from);
			CHECK(!memcmp(flow, expected, sizeof(flow)));
			CHECK(!memcmp(&v, &w, sizeof(v)));
		}
		CHECK_EQ(v.view[FRIO_OUT].backlog, from == FRIO_COUPLED ? 3500 : 1000);
		CHECK_EQ(v.view[FRIO_OUT].flows, from == FRIO_COUPLED ? 3 : 2);
	}
}

/* Only an IN packet is queued: decoupled, the view of OUT is empty. */
static void a_view_that_the_mode_empties_is_idle(void)
{
	struct frio_params p = params(FRIO_COUPLED);
	struct frio_flow flow = {};
	struct frio_vars v;

	frio_init(&v, 0);
	frio_enqueue(&p, &v, &flow, FRIO_IN, 1000);
	flow.view[FRIO_OUT].strikes = 5;
	v.view[FRIO_OUT].average.scaled = 10000 << 9;
	frio_change_mode(&p, &v, FRIO_DECOUPLED, 1000);
	frio_change_flow_mode(&v, &flow, FRIO_DECOUPLED);
	CHECK_EQ(flow.view[FRIO_OUT].strikes, 0);
	CHECK_EQ(v.view[FRIO_OUT].average.idle_since, 1000);
	CHECK_EQ(v.view[FRIO_OUT].average.scaled, 10000 << 9);

	frio_change_mode(&p, &v, FRIO_COUPLED, 1000 + 512 * 800000ULL);
	frio_change_flow_mode(&v, &flow, FRIO_COUPLED);
	CHECK_EQ(v.view[FRIO_OUT].backlog, 1000);
	CHECK_EQ(v.view[FRIO_OUT].average.scaled >> 9, 3675);
}

static void a_view_that_was_idle_stays_so(void)
{
	struct frio_params p = params(FRIO_COUPLED);
	struct frio_vars v;

	frio_init(&v, 10);
	frio_change_mode(&p, &v, FRIO_DECOUPLED, 1000);
	CHECK_EQ(v.view[FRIO_OUT].average.idle_since, 10);
}

int main(void)
{
	RUN(what_is_set_reaches_both_views);
	RUN(a_new_buffer_is_empty);
	RUN(records_are_for_flows_that_fit_into_the_buffer);
	RUN(packets_are_in_the_views_of_the_mode);
	RUN(an_arrival_is_sampled_in_the_views_of_its_class);
	RUN(a_packet_fits_up_to_the_limit);
	RUN(strikes_of_out_do_not_count_against_in);
	RUN(each_class_has_its_own_curve_and_draws_from_it);
	RUN(time_is_looked_at_only_where_it_is_asked_for);
	RUN(verdicts_are_counted_by_class);
	RUN(a_new_weight_keeps_the_averages);
	RUN(a_change_ages_what_idles_by_the_old_configuration);
	RUN(the_mode_changes_as_if_it_had_always_been_so);
	RUN(a_view_that_the_mode_empties_is_idle);
	RUN(a_view_that_was_idle_stays_so);
	return check_finish();
}
