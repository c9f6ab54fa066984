// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/rio.h. */
#include "check.h"

#include <linux/limits.h>
#include <net/rio.h>

static const struct rio_config papers = {
	.curve = {
		[RIO_IN] = { 50000, 490000, 21474836 },		/* 0.005 */
		[RIO_OUT] = { 10000, 200000, 1 << 30 },		/* 0.25 */
	},
	.limit = 500000,
	.avpkt = 1000,
	.bandwidth = 1250000,
	.ewma = 9,
	.mode = RIO_COUPLED,
	.uniformize = EARLY_DROP_UNIFORMIZE_RED,
};

static void a_new_queue_is_empty(void)
{
	struct rio_vars v;

	rio_init(&v, 17);
	CHECK_EQ(rio_backlog(&v), 0);
	CHECK_EQ(v.total.scaled, 0);
	CHECK_EQ(v.total.idle_since, 17);
	for (int i = 0; i < RIO_CLASSES; i++) {
		CHECK_EQ(v.class[i].average.scaled, 0);
		CHECK_EQ(v.class[i].average.idle_since, 17);
		CHECK_EQ(v.class[i].drop.count, EARLY_DROP_OUTSIDE);
	}
	}

/* With ewma 0 an average is the backlog: one class or the other lies above its threshold. */
static void every_mode_judges_by_its_own_average(void)
{
	static const struct {
		enum rio_mode mode;
		enum rio_class class;
		u32 backlog_in, backlog_out;
		enum early_drop_zone zone;
	} rows[] = {
		{ RIO_COUPLED, RIO_IN, 49999, 300000, EARLY_DROP_BELOW },
		{ RIO_COUPLED, RIO_IN, 50000, 0, EARLY_DROP_BETWEEN },
		{ RIO_COUPLED, RIO_IN, 490000, 0, EARLY_DROP_ABOVE },
		{ RIO_COUPLED, RIO_OUT, 9999, 0, EARLY_DROP_BELOW },
		{ RIO_COUPLED, RIO_OUT, 9999, 1, EARLY_DROP_BETWEEN },
		{ RIO_COUPLED, RIO_OUT, 100000, 100000, EARLY_DROP_ABOVE },
		{ RIO_DECOUPLED, RIO_IN, 49999, 300000, EARLY_DROP_BELOW },
		{ RIO_DECOUPLED, RIO_OUT, 300000, 9999, EARLY_DROP_BELOW },
		{ RIO_DECOUPLED, RIO_OUT, 0, 10000, EARLY_DROP_BETWEEN },
		{ RIO_DECOUPLED, RIO_OUT, 0, 200000, EARLY_DROP_ABOVE },
		{ RIO_WRED, RIO_IN, 1, 49998, EARLY_DROP_BELOW },
		{ RIO_WRED, RIO_IN, 1, 49999, EARLY_DROP_BETWEEN },
		{ RIO_WRED, RIO_OUT, 9999, 0, EARLY_DROP_BELOW },
		{ RIO_WRED, RIO_OUT, 9999, 1, EARLY_DROP_BETWEEN },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rio_config config = papers;
		struct rio_params p;
		struct rio_vars v;
		u64 average;

		ROW("row %zu", i);
		config.mode = rows[i].mode;
		config.ewma = 0;
		rio_set_params(&p, &config);
		rio_init(&v, 0);
		v.class[RIO_IN].backlog = rows[i].backlog_in;
		v.class[RIO_OUT].backlog = rows[i].backlog_out;
		average = rio_arrival(&p, &v, rows[i].class, 0);
		CHECK_EQ(early_drop_zone(&p.class[rows[i].class].drop, average), rows[i].zone);
		CHECK_EQ(rio_draws(&p, &v, rows[i].class, average),
			 rows[i].zone == EARLY_DROP_BETWEEN);
	}
}

static void the_total_is_averaged_on_every_arrival_a_class_on_its_own(void)
{
	struct rio_params p;
	struct rio_vars v;

	rio_set_params(&p, &papers);
	rio_init(&v, 0);
	v.class[RIO_IN].backlog = 1000;
	v.class[RIO_OUT].backlog = 2000;
	rio_arrival(&p, &v, RIO_IN, 0);
	CHECK_EQ(v.class[RIO_IN].average.scaled, 1000);
	CHECK_EQ(v.class[RIO_OUT].average.scaled, 0);
	CHECK_EQ(v.total.scaled, 3000);
	rio_arrival(&p, &v, RIO_OUT, 0);
	CHECK_EQ(v.class[RIO_IN].average.scaled, 1000);
	CHECK_EQ(v.class[RIO_OUT].average.scaled, 2000);
	CHECK_EQ(v.total.scaled, 3000 + 3000 - (3000 >> 9));
}

static void what_does_not_fit_is_dropped_whatever_its_class(void)
{
	static const struct {
		u32 limit, backlog_in, backlog_out, len;
		enum rio_verdict verdict;
	} rows[] = {
		{ 1500, 0, 0, 1500, RIO_ENQUEUE },
		{ 1500, 0, 0, 1501, RIO_PDROP },
		{ 5000, 3000, 1000, 999, RIO_ENQUEUE },
		{ 5000, 3000, 1000, 1000, RIO_ENQUEUE },
		{ 5000, 3000, 1000, 1001, RIO_PDROP },
		{ 5000, 6000, 1000, 1, RIO_PDROP },		/* after a change */
		{ U32_MAX, U32_MAX - 10, 5, 5, RIO_ENQUEUE },
		{ U32_MAX, U32_MAX - 10, 5, 6, RIO_PDROP },
		{ U32_MAX, U32_MAX - 10, 5, U32_MAX, RIO_PDROP },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (int class = 0; class < RIO_CLASSES; class++) {
			bool fits = rows[i].verdict == RIO_ENQUEUE;
			struct rio_config config = papers;
			struct rio_params p;
			struct rio_vars v;

			ROW("row %zu, class %d", i, class);
			config.limit = rows[i].limit;
			rio_set_params(&p, &config);
			rio_init(&v, 0);
			v.class[RIO_IN].backlog = rows[i].backlog_in;
			v.class[RIO_OUT].backlog = rows[i].backlog_out;
			v.class[class].drop.count = 7;
			CHECK_EQ(rio_decide(&p, &v, class, 0, rows[i].len, 0),
				 rows[i].verdict);
			CHECK_EQ(rio_backlog(&v), rows[i].backlog_in + rows[i].backlog_out +
						  (fits ? rows[i].len : 0));
			CHECK_EQ(v.class[class].drop.count, EARLY_DROP_OUTSIDE);
		}
}

static void an_early_drop_comes_before_the_limit(void)
{
	static const struct {
		enum rio_class class;
		u32 average, u;
		enum rio_verdict verdict;
		s32 count;
	} rows[] = {
		/* u of 0 drops at once, u of 1 not yet; count counts from 5 */
		{ RIO_OUT, 105000, 0, RIO_EARLY, EARLY_DROP_DROPPED },
		{ RIO_OUT, 105000, U32_MAX, RIO_PDROP, 6 },
		{ RIO_OUT, 200000, U32_MAX, RIO_FORCED, EARLY_DROP_OUTSIDE },
		{ RIO_IN, 270000, 0, RIO_EARLY, EARLY_DROP_DROPPED },
		{ RIO_IN, 270000, U32_MAX, RIO_PDROP, 6 },
		{ RIO_IN, 490000, 0, RIO_FORCED, EARLY_DROP_OUTSIDE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		enum rio_class other = rows[i].class == RIO_IN ? RIO_OUT : RIO_IN;
		struct rio_params p;
		struct rio_vars v;

		ROW("row %zu", i);
		rio_set_params(&p, &papers);
		rio_init(&v, 0);
		v.class[RIO_IN].backlog = 499000;
		v.class[rows[i].class].drop.count = 5;
		v.class[rows[i].class].drop.u = rows[i].u;
		CHECK_EQ(rio_decide(&p, &v, rows[i].class, (u64)rows[i].average << 9, 1001,
				    0),
			 rows[i].verdict);
		CHECK_EQ(v.class[rows[i].class].drop.count, rows[i].count);
		CHECK_EQ(v.class[other].drop.count, EARLY_DROP_OUTSIDE);
		CHECK_EQ(v.class[RIO_IN].backlog, 499000);
		CHECK_EQ(v.class[RIO_OUT].backlog, 0);
	}
}

static void each_class_idles_on_its_own(void)
{
	struct rio_params p;
	struct rio_vars v;

	rio_set_params(&p, &papers);
	rio_init(&v, 1);
	CHECK_EQ(rio_decide(&p, &v, RIO_IN, 0, 1000, 0), RIO_ENQUEUE);
	CHECK_EQ(rio_decide(&p, &v, RIO_OUT, 0, 600, 0), RIO_ENQUEUE);
	CHECK_EQ(rio_decide(&p, &v, RIO_OUT, 0, 400, 0), RIO_ENQUEUE);
	CHECK_EQ(rio_departure(&v, RIO_OUT, 600), false);
	CHECK_EQ(rio_departure(&v, RIO_OUT, 400), true);
	rio_empty(&v, RIO_OUT, 100);
	CHECK_EQ(v.class[RIO_OUT].average.idle_since, 100);
	CHECK_EQ(v.class[RIO_IN].average.idle_since, 1);
	CHECK_EQ(v.total.idle_since, 1);
	CHECK_EQ(rio_departure(&v, RIO_IN, 1000), true);
	rio_empty(&v, RIO_IN, 200);
	CHECK_EQ(v.class[RIO_IN].average.idle_since, 200);
	CHECK_EQ(v.class[RIO_OUT].average.idle_since, 100);
	CHECK_EQ(v.total.idle_since, 200);
}

/* An IN packet that finds OUT packets only: avg_in ages, avg_total gets a sample. */
static void a_class_ages_while_the_other_is_queued(void)
{
	struct rio_config config = papers;
	struct rio_params p;
	struct rio_vars v;

	config.ewma = 1;
	rio_set_params(&p, &config);
	rio_init(&v, 0);
	v.class[RIO_OUT].backlog = 10000;
	v.class[RIO_IN].average.scaled = 1 << 20;
	v.total.scaled = 1 << 20;
	rio_arrival(&p, &v, RIO_IN, 800000);
	CHECK(v.class[RIO_IN].average.scaled <= 1 << 19);
	CHECK(v.class[RIO_IN].average.scaled >= (1 << 19) - 1);
	CHECK_EQ(v.total.scaled, (1 << 19) + 10000);
}

static void a_change_of_weight_keeps_all_averages(void)
{
	struct rio_config config = papers;
	struct rio_params p;
	struct rio_vars v;

	rio_set_params(&p, &config);
	rio_init(&v, 0);
	v.class[RIO_IN].backlog = 500;
	v.class[RIO_OUT].backlog = 700;
	v.total.scaled = 7 << 9;
	v.class[RIO_IN].average.scaled = 4 << 9;
	v.class[RIO_OUT].average.scaled = 3 << 9;
	config.ewma = 3;
	config.limit = 1234;
	rio_change_params(&p, &v, &config, 1000000000);
	CHECK_EQ(p.average.ewma, 3);
	CHECK_EQ(p.limit, 1234);
	CHECK_EQ(v.total.scaled, 7 << 3);
	CHECK_EQ(v.class[RIO_IN].average.scaled, 4 << 3);
	CHECK_EQ(v.class[RIO_OUT].average.scaled, 3 << 3);
}

/* OUT is queued, IN idles since 0; then nothing is. By the old bandwidth a packet takes 0.8 ms. */
static void a_change_ages_what_idles_by_the_old_configuration(void)
{
	struct rio_config config = papers;
	struct rio_params p;
	struct rio_vars v;

	config.ewma = 1;
	rio_set_params(&p, &config);
	rio_init(&v, 0);
	v.class[RIO_OUT].backlog = 700;
	v.total.scaled = 1 << 20;
	v.class[RIO_IN].average.scaled = 1 << 20;
	v.class[RIO_OUT].average.scaled = 1 << 20;
	config.bandwidth *= 2;
	rio_change_params(&p, &v, &config, 800000);
	CHECK_EQ(v.total.scaled, 1 << 20);
	CHECK_EQ(v.class[RIO_OUT].average.scaled, 1 << 20);
	CHECK_EQ(v.class[RIO_OUT].average.idle_since, 0);
	CHECK(v.class[RIO_IN].average.scaled <= 1 << 19);
	CHECK(v.class[RIO_IN].average.scaled >= (1 << 19) - 1);
	CHECK_EQ(v.class[RIO_IN].average.idle_since, 800000);
	rio_arrival(&p, &v, RIO_IN, 1200000);
	CHECK(v.class[RIO_IN].average.scaled <= 1 << 18);
	CHECK(v.class[RIO_IN].average.scaled >= (1 << 18) - 2);

	rio_departure(&v, RIO_OUT, 700);
	rio_empty(&v, RIO_OUT, 2000000);
	v.total.scaled = 1 << 20;
	config.ewma = 3;
	rio_change_params(&p, &v, &config, 2400000);
	CHECK(v.total.scaled <= 1 << 21);	/* halved, and of a unit that is a fourth */
	CHECK(v.total.scaled >= (1 << 21) - 4);
	CHECK_EQ(v.total.idle_since, 2400000);
}

static void packets_are_counted_by_class_and_verdict(void)
{
	struct rio_stats stats = { 0 };

	rio_count(&stats, RIO_OUT, RIO_EARLY, 1000);
	rio_count(&stats, RIO_OUT, RIO_EARLY, 500);
	rio_count(&stats, RIO_IN, RIO_PDROP, 40);
	CHECK_EQ(stats.count[RIO_OUT][RIO_EARLY].packets, 2);
	CHECK_EQ(stats.count[RIO_OUT][RIO_EARLY].bytes, 1500);
	CHECK_EQ(stats.count[RIO_IN][RIO_PDROP].packets, 1);
	CHECK_EQ(stats.count[RIO_IN][RIO_PDROP].bytes, 40);
	CHECK_EQ(stats.count[RIO_IN][RIO_EARLY].packets, 0);
	for (int i = 0; i < 2; i++)
		rio_count(&stats, RIO_IN, RIO_ENQUEUE, U32_MAX);
	CHECK_EQ(stats.count[RIO_IN][RIO_ENQUEUE].bytes, 2ULL * U32_MAX);
}

int main(void)
{
	RUN(a_new_queue_is_empty);
	RUN(every_mode_judges_by_its_own_average);
	RUN(the_total_is_averaged_on_every_arrival_a_class_on_its_own);
	RUN(what_does_not_fit_is_dropped_whatever_its_class);
	RUN(an_early_drop_comes_before_the_limit);
	RUN(each_class_idles_on_its_own);
	RUN(a_class_ages_while_the_other_is_queued);
	RUN(a_change_of_weight_keeps_all_averages);
	RUN(a_change_ages_what_idles_by_the_old_configuration);
	RUN(packets_are_counted_by_class_and_verdict);
	return check_finish();
}
