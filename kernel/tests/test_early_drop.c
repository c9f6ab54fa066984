// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/early_drop.h. */
#include "check.h"

#include <linux/limits.h>
#include <net/early_drop.h>

#define NONE	EARLY_DROP_UNIFORMIZE_NONE
#define RED	EARLY_DROP_UNIFORMIZE_RED

static struct early_drop_params params(u32 min, u32 max, double probability, u8 uniformize,
				       u8 ewma)
{
	u32 q32 = probability < 1 ? (u32)(probability * 4294967296.0) : U32_MAX;
	struct early_drop_params p;

	early_drop_set_params(&p, min, max, q32, uniformize, ewma);
	return p;
}

static void below_at_between_at_and_above_the_thresholds(void)
{
	enum { OUTSIDE = EARLY_DROP_OUTSIDE, DROPPED = EARLY_DROP_DROPPED };
	static const struct {
		u64 scaled;
		enum early_drop_zone zone;
		enum early_drop_verdict with_0, with_max;	/* as u; 3 packets passed */
		s32 count_0, count_max;
	} rows[] = {
		{ 0, EARLY_DROP_BELOW, EARLY_DROP_PASS, EARLY_DROP_PASS, OUTSIDE, OUTSIDE },
		{ (10000 << 9) - 1, EARLY_DROP_BELOW, EARLY_DROP_PASS, EARLY_DROP_PASS, OUTSIDE,
		  OUTSIDE },
		{ 10000 << 9, EARLY_DROP_BETWEEN, EARLY_DROP_RANDOM, EARLY_DROP_PASS, DROPPED, 4 },
		{ (10000 << 9) + 1, EARLY_DROP_BETWEEN, EARLY_DROP_RANDOM, EARLY_DROP_PASS, DROPPED,
		  4 },
		{ 20000 << 9, EARLY_DROP_BETWEEN, EARLY_DROP_RANDOM, EARLY_DROP_PASS, DROPPED, 4 },
		/* pb is 1/4 less its rounding: 4 pb does not reach 1 */
		{ (30000 << 9) - 1, EARLY_DROP_BETWEEN, EARLY_DROP_RANDOM, EARLY_DROP_PASS, DROPPED,
		  4 },
		{ 30000 << 9, EARLY_DROP_ABOVE, EARLY_DROP_FORCED, EARLY_DROP_FORCED, OUTSIDE,
		  OUTSIDE },
		{ (30000 << 9) + 1, EARLY_DROP_ABOVE, EARLY_DROP_FORCED, EARLY_DROP_FORCED, OUTSIDE,
		  OUTSIDE },
		{ U64_MAX, EARLY_DROP_ABOVE, EARLY_DROP_FORCED, EARLY_DROP_FORCED, OUTSIDE,
		  OUTSIDE },
	};
	struct early_drop_params p = params(10000, 30000, 0.25, RED, 9);

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct early_drop_vars v = { .count = 3, .u = 0 };

		ROW("row %zu", i);
		CHECK_EQ(early_drop_zone(&p, rows[i].scaled), rows[i].zone);
		CHECK_EQ(early_drop_draws(&p, &v, rows[i].scaled), false);
		CHECK_EQ(early_drop_decide(&p, &v, rows[i].scaled, 99), rows[i].with_0);
		CHECK_EQ(v.count, rows[i].count_0);
		v = (struct early_drop_vars){ .count = 3, .u = U32_MAX };
		CHECK_EQ(early_drop_decide(&p, &v, rows[i].scaled, 99), rows[i].with_max);
		CHECK_EQ(v.count, rows[i].count_max);
	}
}

/* pb is 1/8 at 2^19. */
static void one_number_is_drawn_for_each_drop(void)
{
	static const struct {
		s32 count;
		u32 u, rnd;
		bool draws;
		enum early_drop_verdict verdict;
		s32 count_after;
		u32 u_after;
	} rows[] = {
		{ EARLY_DROP_OUTSIDE, 7, 0, true, EARLY_DROP_PASS, 0, 0 },
		{ EARLY_DROP_OUTSIDE, 7, U32_MAX, true, EARLY_DROP_PASS, 0, U32_MAX },
		{ EARLY_DROP_DROPPED, 7, 0, true, EARLY_DROP_RANDOM, EARLY_DROP_DROPPED, 0 },
		{ EARLY_DROP_DROPPED, 7, (1 << 29) - 2, true, EARLY_DROP_RANDOM,
		  EARLY_DROP_DROPPED, (1 << 29) - 2 },
		{ EARLY_DROP_DROPPED, 7, (1 << 29) + 1, true, EARLY_DROP_PASS, 1, (1 << 29) + 1 },
		{ EARLY_DROP_DROPPED, 7, U32_MAX, true, EARLY_DROP_PASS, 1, U32_MAX },
		{ 0, 1 << 28, 9, false, EARLY_DROP_RANDOM, EARLY_DROP_DROPPED, 1 << 28 },
		{ 0, 1 << 30, 9, false, EARLY_DROP_PASS, 1, 1 << 30 },
		{ 1, (1 << 30) - 8, 9, false, EARLY_DROP_RANDOM, EARLY_DROP_DROPPED,
		  (1 << 30) - 8 },
		{ 6, U32_MAX, 9, false, EARLY_DROP_PASS, 7, U32_MAX },
		{ 8, U32_MAX, 9, false, EARLY_DROP_RANDOM, EARLY_DROP_DROPPED, U32_MAX },
		{ EARLY_DROP_MAX_COUNT - 1, U32_MAX, 9, false, EARLY_DROP_RANDOM,
		  EARLY_DROP_DROPPED, U32_MAX },
		{ EARLY_DROP_MAX_COUNT, U32_MAX, 9, false, EARLY_DROP_RANDOM, EARLY_DROP_DROPPED,
		  U32_MAX },
	};
	struct early_drop_params p = params(0, 1 << 20, 0.25, RED, 0);

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct early_drop_vars v = { .count = rows[i].count, .u = rows[i].u };

		ROW("row %zu", i);
		CHECK_EQ(early_drop_draws(&p, &v, 1 << 19), rows[i].draws);
		CHECK_EQ(early_drop_decide(&p, &v, 1 << 19, rows[i].rnd), rows[i].verdict);
		CHECK_EQ(v.count, rows[i].count_after);
		CHECK_EQ(v.u, rows[i].u_after);
	}
}

static void nothing_is_drawn_outside_of_the_thresholds(void)
{
	struct early_drop_params red = params(10, 20, 0.25, RED, 0);
	struct early_drop_params none = params(10, 20, 0.25, NONE, 0);
	struct early_drop_vars v;

	early_drop_init(&v);
	for (u64 scaled = 0; scaled < 30; scaled++) {
		ROW("at %llu", (unsigned long long)scaled);
		CHECK_EQ(early_drop_draws(&red, &v, scaled), scaled >= 10 && scaled < 20);
		CHECK_EQ(early_drop_draws(&none, &v, scaled), scaled >= 10 && scaled < 20);
	}
}

static void without_uniformize_every_packet_is_decided_alone(void)
{
	static const struct {
		u32 rnd;
		enum early_drop_verdict verdict;
	} rows[] = {
		{ 0, EARLY_DROP_RANDOM },
		{ (1 << 29) - 2, EARLY_DROP_RANDOM },
		{ 1 << 29, EARLY_DROP_PASS },
		{ U32_MAX, EARLY_DROP_PASS },
	};
	struct early_drop_params p = params(0, 1 << 20, 0.25, NONE, 0);
	struct early_drop_vars v = { .count = 3, .u = 0 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ROW("row %zu", i);
		CHECK_EQ(early_drop_draws(&p, &v, 1 << 19), true);
		CHECK_EQ(early_drop_decide(&p, &v, 1 << 19, rows[i].rnd), rows[i].verdict);
	}
	CHECK_EQ(early_drop_decide(&p, &v, 0, 0), EARLY_DROP_PASS);	/* pb is 0 */
}

static void pb_rises_on_a_line(void)
{
	static const struct {
		u32 min, max;
		double probability;
		u8 ewma;
		u64 scaled;
		u32 pb;		/* exact, rounded down */
	} rows[] = {
		{ 10000, 30000, 0.5, 9, 10000ULL << 9, 0 },
		{ 10000, 30000, 0.5, 9, 20000ULL << 9, 1 << 30 },
		{ 10000, 30000, 0.5, 9, 25000ULL << 9, 3 << 29 },
		{ 10000, 30000, 0.5, 9, (30000ULL << 9) - 1, 2147483438 },
		{ 0, 4, 1, 0, 1, 1073741823 },
		{ 0, 4, 1, 0, 3, 3221225471 },
		{ 0, 1, 1, 0, 0, 0 },
		{ 0, U32_MAX, 1, 0, U32_MAX - 1, U32_MAX - 1 },
		{ 0, U32_MAX, 1, 31, ((u64)U32_MAX << 31) - 1, U32_MAX - 1 },
		{ 0, U32_MAX, 1, 31, (u64)U32_MAX << 30, 2147483647 },
		{ 50000, 490000, 0.005, 9, 270000ULL << 9, 10737418 },
		{ 50000, 490000, 0, 9, 270000ULL << 9, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct early_drop_params p = params(rows[i].min, rows[i].max, rows[i].probability,
						    RED, rows[i].ewma);
		u32 pb = early_drop_pb(&p, rows[i].scaled);

		ROW("row %zu: %u", i, pb);
		CHECK(pb <= rows[i].pb);
		CHECK(pb + 4ULL > rows[i].pb);
	}
}

/* pb = 1/4: pa is 1/4, 1/3, 1/2, 1; none leaves it at 1/4. */
static void count_raises_the_probability_of_one_draw(void)
{
	static const struct {
		s32 count;
		u8 uniformize;
		double pa;
	} rows[] = {
		{ -1, RED, 0.25 },
		{ 0, RED, 1.0 / 3 },
		{ 1, RED, 0.5 },
		{ 2, RED, 1 },
		{ 3, RED, 1 },
		{ EARLY_DROP_MAX_COUNT - 1, RED, 1 },
		{ EARLY_DROP_MAX_COUNT, RED, 1 },
		{ -1, NONE, 0.25 },
		{ 0, NONE, 0.25 },
		{ 3, NONE, 0.25 },
		{ EARLY_DROP_MAX_COUNT, NONE, 0.25 },
	};
	/* 2^18 units below max, so that pb is 1/4 without rounding */
	struct early_drop_params red = params(0, 1 << 20, 0.5, RED, 0);
	struct early_drop_params none = params(0, 1 << 20, 0.5, NONE, 0);

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct early_drop_params *p = rows[i].uniformize == RED ? &red : &none;
		struct early_drop_vars v = { .count = rows[i].count };
		u64 at = (u64)(rows[i].pa * 4294967296.0);

		ROW("row %zu", i);
		CHECK_EQ(early_drop_random(p, &v, 1 << 19, at - 2), true);
		CHECK_EQ(v.count, 0);
		if (at + 2 > U32_MAX)
			continue;
		v.count = rows[i].count;
		CHECK_EQ(early_drop_random(p, &v, 1 << 19, at + 2), false);
		CHECK_EQ(v.count, rows[i].count == EARLY_DROP_MAX_COUNT ? EARLY_DROP_MAX_COUNT :
						      rows[i].count + 1);
	}
}

/* The smallest pb there is drops at the latest after 2^31 packets or so, count at its end. */
static void count_stops_before_it_wraps_around(void)
{
	struct early_drop_params p = params(0, 1 << 20, 0.5, RED, 0);
	struct early_drop_vars v = { .count = EARLY_DROP_MAX_COUNT };

	CHECK_EQ(early_drop_random(&p, &v, 0, 0), false);	/* pb is 0 */
	CHECK_EQ(v.count, EARLY_DROP_MAX_COUNT);
	p.slope = 1ULL << 32;
	CHECK_EQ(early_drop_random(&p, &v, 1, U32_MAX), false);	/* pb is 2^-32 */
	CHECK_EQ(early_drop_random(&p, &v, 1, 1), true);
	v.count = EARLY_DROP_MAX_COUNT;
	CHECK_EQ(early_drop_random(&p, &v, 3, U32_MAX), true);
	v = (struct early_drop_vars){ .count = EARLY_DROP_MAX_COUNT, .u = 1U << 31 };
	CHECK_EQ(early_drop_decide(&p, &v, 1, 0), EARLY_DROP_PASS);
	CHECK_EQ(v.count, EARLY_DROP_MAX_COUNT);
	CHECK_EQ(early_drop_decide(&p, &v, 2, 0), EARLY_DROP_RANDOM);
}

static void equal_thresholds_leave_no_room_for_chance(void)
{
	struct early_drop_params p = params(5000, 5000, 0.25, RED, 9);
	struct early_drop_vars v;

	early_drop_init(&v);
	CHECK_EQ(v.count, -1);
	CHECK_EQ(early_drop_decide(&p, &v, (5000 << 9) - 1, 0), EARLY_DROP_PASS);
	CHECK_EQ(early_drop_decide(&p, &v, 5000 << 9, U32_MAX), EARLY_DROP_FORCED);
}

static u32 draw(u64 *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 32;
}

/* pb is 1/8 and steady: 400000 packets, and the distances between drops. */
static void check_even(const u32 *seen, u32 drops, u32 longest)
{
	CHECK_EQ(seen[longest + 1], 0);
	for (u32 n = 1; n <= longest; n++) {
		ROW("distance %u: %u of %u", n, seen[n], drops);
		CHECK(seen[n] * longest > drops * 0.97 && seen[n] * longest < drops * 1.03);
	}
}

static void drops_are_spread_evenly(void)
{
	struct early_drop_params p = params(0, 1 << 20, 0.25, RED, 0);
	struct early_drop_vars v = { .count = EARLY_DROP_DROPPED };
	u32 distance = 0, seen[16] = { 0 }, drops = 0;
	u64 state = 1;

	for (int i = 0; i < 400000; i++) {
		distance++;
		if (early_drop_decide(&p, &v, 1 << 19, draw(&state)) == EARLY_DROP_PASS)
			continue;
		seen[distance < 15 ? distance : 15]++;
		drops++;
		distance = 0;
	}
	check_even(seen, drops, 8);
}

static void drops_of_single_draws_are_spread_evenly(void)
{
	struct early_drop_params p = params(0, 1 << 20, 0.25, RED, 0);
	struct early_drop_vars v = { .count = 0 };
	u32 distance = 0, seen[16] = { 0 }, drops = 0;
	u64 state = 1;

	for (int i = 0; i < 400000; i++) {
		distance++;
		if (!early_drop_random(&p, &v, 1 << 19, draw(&state)))
			continue;
		seen[distance < 15 ? distance : 15]++;
		drops++;
		distance = 0;
	}
	check_even(seen, drops, 7);
}

int main(void)
{
	RUN(below_at_between_at_and_above_the_thresholds);
	RUN(one_number_is_drawn_for_each_drop);
	RUN(nothing_is_drawn_outside_of_the_thresholds);
	RUN(without_uniformize_every_packet_is_decided_alone);
	RUN(pb_rises_on_a_line);
	RUN(count_raises_the_probability_of_one_draw);
	RUN(count_stops_before_it_wraps_around);
	RUN(equal_thresholds_leave_no_room_for_chance);
	RUN(drops_are_spread_evenly);
	RUN(drops_of_single_draws_are_spread_evenly);
	return check_finish();
}
