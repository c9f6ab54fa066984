// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/queue_average.h. */
#include "check.h"

#include <net/queue_average.h>

#define SECOND	1000000000ULL

/* |actual - expected| <= expected 2^-23 + 1, the bound that the header proves for ageing */
static void check_aged(u64 actual, u64 expected)
{
	u64 error = actual > expected ? actual - expected : expected - actual;

	CHECK(error <= (expected >> 23) + 1);
}

static struct queue_average_params params(u8 ewma, u32 avpkt, u64 bandwidth)
{
	struct queue_average_params p;

	queue_average_set_params(&p, ewma, avpkt, bandwidth);
	return p;
}

static void an_arrival_moves_the_average_by_its_weight(void)
{
	static const struct {
		u8 ewma;
		u64 scaled;
		u32 backlog;
		u64 then;
	} rows[] = {
		{ 9, 0, 1000, 1000 },
		{ 9, 1000, 1000, 1999 },
		{ 9, 1000ULL << 9, 1000, 1000ULL << 9 },
		{ 9, 1000ULL << 9, 1, (1000ULL << 9) - 999 },
		{ 1, 1000, 7, 507 },
		{ 1, 1001, 7, 508 },		/* what leaves is rounded down */
		{ 0, 1000, 7, 7 },
		{ 0, 0, U32_MAX, U32_MAX },
		{ 31, 0, U32_MAX, U32_MAX },
		{ 31, (u64)U32_MAX << 31, U32_MAX, (u64)U32_MAX << 31 },
		{ 31, ((u64)U32_MAX << 31) + 0x7fffffff, U32_MAX,
		  ((u64)U32_MAX << 31) + 0x7fffffff },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct queue_average_params p = params(rows[i].ewma, 1000, 1250000);
		struct queue_average v = { .scaled = rows[i].scaled, .idle_since = 5 };

		ROW("row %zu", i);
		queue_average_arrival(&p, &v, rows[i].backlog, 99);
		CHECK_EQ(v.scaled, rows[i].then);
		CHECK_EQ(v.idle_since, 5);	/* the clock was not looked at */
		CHECK_EQ(queue_average_bytes(&p, &v), (u32)(rows[i].then >> rows[i].ewma));
	}
}

static void a_steady_backlog_is_met_to_less_than_a_byte(void)
{
	struct queue_average_params p = params(9, 1000, 1250000);
	struct queue_average v;

	queue_average_init(&v, 0);
	for (int i = 0; i < 20000; i++)
		queue_average_arrival(&p, &v, 123456, 0);
	CHECK(v.scaled >= 123456ULL << 9);
	CHECK(v.scaled < 123457ULL << 9);
	for (int i = 0; i < 20000; i++)
		queue_average_arrival(&p, &v, 1, 0);
	CHECK(v.scaled >= 1 << 9);
	CHECK(v.scaled < 2 << 9);
}

/* With W = 1/2 the average halves in each s = 1000 B / 1.25 MB/s = 800 us. */
static void idle_time_ages_the_average(void)
{
	static const struct {
		u64 idle;
		u64 expected;
	} rows[] = {
		{ 0, 1ULL << 40 },
		{ 1, 1099510675122 },
		{ 50000, 1052895941925 },	/* 2^-(1/16) */
		{ 400000, 777472127994 },	/* 2^-(1/2) */
		{ 799999, 549756290215 },
		{ 800000, 1ULL << 39 },
		{ 800001, 549755337561 },
		{ 1600000, 1ULL << 38 },
		{ 8000000, 1ULL << 30 },
		{ 31600000, 1 },
		{ 33600000, 0 },
		{ 51200000 - 1, 0 },		/* x just below 64 */
		{ 51200000, 0 },
		{ 51200001, 0 },
		{ 3600 * SECOND, 0 },
		{ 292ULL * 366 * 86400 * SECOND, 0 },
	};
	struct queue_average_params p = params(1, 1000, 1250000);

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct queue_average v = { .scaled = 1ULL << 40, .idle_since = 7 };

		ROW("idle for %llu ns", (unsigned long long)rows[i].idle);
		queue_average_arrival(&p, &v, 0, 7 + rows[i].idle);
		check_aged(v.scaled, rows[i].expected);
		CHECK_EQ(v.idle_since, 7 + rows[i].idle);
	}
}

/* 512 typical packets at W = 1/512: (1 - 1/512)^512 = 0.36752 */
static void a_small_weight_ages_slowly(void)
{
	struct queue_average_params p = params(9, 1000, 1250000);
	struct queue_average v = { .scaled = 1000000ULL << 9 };

	queue_average_arrival(&p, &v, 0, 512ULL * 800000);
	CHECK_EQ(queue_average_bytes(&p, &v), 367519);
}

static void a_weight_of_one_forgets_at_once(void)
{
	struct queue_average_params p = params(0, 1000, 1250000);
	struct queue_average v = { .scaled = 5000, .idle_since = 3 };

	queue_average_arrival(&p, &v, 0, 3);
	CHECK_EQ(v.scaled, 0);
}

/* A packet that is dropped leaves the queue empty: the next must not age twice for the same. */
static void what_was_aged_for_is_not_aged_for_again(void)
{
	struct queue_average_params p = params(1, 1000, 1250000);
	struct queue_average v = { .scaled = 1ULL << 40 };

	queue_average_arrival(&p, &v, 0, 800000);
	check_aged(v.scaled, 1ULL << 39);
	queue_average_arrival(&p, &v, 0, 800000);
	check_aged(v.scaled, 1ULL << 39);
	queue_average_arrival(&p, &v, 0, 1600000);
	check_aged(v.scaled, 1ULL << 38);
}

static void idling_begins_when_the_queue_becomes_empty(void)
{
	struct queue_average_params p = params(1, 1000, 1250000);
	struct queue_average v;

	queue_average_init(&v, 11);
	CHECK_EQ(v.scaled, 0);
	CHECK_EQ(v.idle_since, 11);
	queue_average_arrival(&p, &v, 0, 12);
	CHECK_EQ(v.scaled, 0);
	v.scaled = 1ULL << 40;
	queue_average_empty(&v, 1000000);
	queue_average_arrival(&p, &v, 0, 1800000);
	check_aged(v.scaled, 1ULL << 39);
}

static void a_clock_that_wraps_around_does_no_harm(void)
{
	struct queue_average_params p = params(1, 1000, 1250000);
	struct queue_average v = { .scaled = 1ULL << 40, .idle_since = -400000ULL };

	queue_average_arrival(&p, &v, 0, 400000);
	check_aged(v.scaled, 1ULL << 39);
}

static void extreme_rates_stay_within_the_arithmetic(void)
{
	static const struct {
		u8 ewma;
		u32 avpkt;
		u64 bandwidth;
		u64 idle;
		u64 expected;	/* of 2^40 */
	} rows[] = {
		{ 1, 1, U64_MAX, 0, 1ULL << 40 },
		{ 1, 1, U64_MAX, 1, 0 },
		{ 1, 1, U64_MAX, 2, 0 },
		{ 1, 1, 1, SECOND, 1ULL << 39 },
		{ 31, U32_MAX, 1, 0, 1ULL << 40 },
		{ 31, U32_MAX, 1, (1ULL << 63) - 1, 1ULL << 40 },
		{ 31, U32_MAX, U64_MAX, 346573590, 1ULL << 39 },	/* 2^31 ln 2 packets */
		{ 31, 1000, 1250000, 1190817788450570, 1ULL << 39 },
		{ 2, U32_MAX, 12500000000ULL, 827870696, 1ULL << 39 },	/* idle_shift is 3 */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct queue_average_params p = params(rows[i].ewma, rows[i].avpkt,
						       rows[i].bandwidth);
		struct queue_average v = { .scaled = 1ULL << 40 };

		ROW("row %zu", i);
		queue_average_arrival(&p, &v, 0, rows[i].idle);
		check_aged(v.scaled, rows[i].expected);
	}
}

static void powers_of_one_half(void)
{
	static const struct {
		u32 x;
		u32 power;
	} rows[] = {
		{ 0, U32_MAX },
		{ 1, U32_MAX - 1 },
		{ 0x10000000, 0xf5257d15 },
		{ 0x80000000, 0xb504f334 },
		{ 0xf0000000, 0x85aac368 },
		{ U32_MAX, 0x80000000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		u32 power = queue_average_exp2(rows[i].x);

		ROW("2^-(%08x / 2^32)", rows[i].x);
		CHECK(power >= rows[i].power - 12 && power <= rows[i].power + (u64)8);
	}
	for (u64 x = 1 << 16; x <= U32_MAX; x += 1 << 16) {
		ROW("falls at %08x", (u32)x);
		CHECK(queue_average_exp2(x) < queue_average_exp2(x - (1 << 16)));
	}
}

static void a_change_of_weight_keeps_the_average(void)
{
	struct queue_average_params p = params(3, 1000, 1250000);
	struct queue_average v = { .scaled = 777ULL << 9 };

	queue_average_rescale(&v, 9, 3);
	CHECK_EQ(queue_average_bytes(&p, &v), 777);
	queue_average_rescale(&v, 3, 3);
	CHECK_EQ(v.scaled, 777 << 3);
	queue_average_rescale(&v, 3, 31);
	CHECK_EQ(v.scaled, 777ULL << 31);
	queue_average_rescale(&v, 31, 0);
	CHECK_EQ(v.scaled, 777);
}

/* Half a second of silence at the old rate, then some at the new one. */
static void what_has_idled_ages_by_the_old_parameters(void)
{
	static const struct {
		u32 backlog;
		u8 ewma;		/* new */
		u64 then;		/* scaled, right after the change */
		u64 since;		/* idle_since */
		u64 later;		/* 0.8 ms after it, by the new parameters */
	} rows[] = {
		{ 0, 1, 1ULL << 39, 1800000, 1ULL << 37 },
		{ 0, 2, 1ULL << 40, 1800000, 618475290624 },	/* (3/4)^2 of it */
		{ 1, 1, 1ULL << 40, 1000000, 0 },
		{ 1, 3, 1ULL << 42, 1000000, 0 },
		{ 0, 0, 1ULL << 38, 1800000, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct queue_average_params old = params(1, 1000, 1250000);
		struct queue_average_params new = params(rows[i].ewma, 1000, 2500000);
		struct queue_average v = { .scaled = 1ULL << 40, .idle_since = 1000000 };

		ROW("row %zu", i);
		queue_average_change(&old, &v, rows[i].backlog, rows[i].ewma, 1800000);
		CHECK_EQ(v.idle_since, rows[i].since);
		if (rows[i].backlog) {
			CHECK_EQ(v.scaled, rows[i].then);
			continue;
		}
		check_aged(v.scaled, rows[i].then);
		queue_average_arrival(&new, &v, 0, 2600000);
		check_aged(v.scaled, rows[i].later);
	}
}

int main(void)
{
	RUN(an_arrival_moves_the_average_by_its_weight);
	RUN(a_steady_backlog_is_met_to_less_than_a_byte);
	RUN(idle_time_ages_the_average);
	RUN(a_small_weight_ages_slowly);
	RUN(a_weight_of_one_forgets_at_once);
	RUN(what_was_aged_for_is_not_aged_for_again);
	RUN(idling_begins_when_the_queue_becomes_empty);
	RUN(a_clock_that_wraps_around_does_no_harm);
	RUN(extreme_rates_stay_within_the_arithmetic);
	RUN(powers_of_one_half);
	RUN(a_change_of_weight_keeps_the_average);
	RUN(what_has_idled_ages_by_the_old_parameters);
	return check_finish();
}
