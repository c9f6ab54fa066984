// SPDX-License-Identifier: GPL-2.0
/* A changing link: by hand, at the edges of its steps and milliseconds, and stepped by ns. */
#include <net/delivery.h>

#include "check.h"

#define SECOND	1000000000LL
#define EPOCH	(5 * SECOND)

static struct delivery_step steps[] = { { 0, 1000 }, { SECOND, 0 }, { 3 * SECOND, 500 } };

static struct delivery of_rates(s64 now)
{
	struct delivery d = { .steps = steps, .length = 3, .burst = 200, .epoch = EPOCH };

	delivery_begin(&d, now);
	return d;
}

static u8 trace[] = { 1, 0, 0, 2 };

static struct delivery of_trace(s64 now)
{
	struct delivery d = { .trace = trace, .length = 4, .epoch = EPOCH };

	delivery_begin(&d, now);
	return d;
}

static void begins_in_the_step_in_force(void)
{
	CHECK_EQ(of_rates(0).step, 0);
	CHECK_EQ(of_rates(EPOCH + SECOND - 1).step, 0);
	CHECK_EQ(of_rates(EPOCH + SECOND).step, 1);
	CHECK_EQ(of_rates(EPOCH + 9 * SECOND).step, 2);
}

static void bucket_fills_up_to_its_burst(void)
{
	struct delivery d = of_rates(EPOCH);

	delivery_fill(&d, EPOCH + SECOND / 10, 0);
	CHECK_EQ(d.credit, 100 * DELIVERY_BYTE);
	delivery_fill(&d, EPOCH + SECOND / 2, 0);
	CHECK_EQ(d.credit, 200 * DELIVERY_BYTE);
	delivery_fill(&d, EPOCH + SECOND / 2, 300);
	delivery_fill(&d, EPOCH + 2 * SECOND, 300);
	CHECK_EQ(d.credit, 400 * DELIVERY_BYTE);
	/* What is above a smaller burst stays. */
	delivery_fill(&d, EPOCH + 3 * SECOND + 1, 0);
	CHECK_EQ(d.credit, 400 * DELIVERY_BYTE);
	CHECK(!delivery_take(&d, 401));
	CHECK(delivery_take(&d, 400));
	CHECK_EQ(d.credit, 0);
	delivery_idle(&d, EPOCH + 4 * SECOND);
	delivery_fill(&d, EPOCH + 3 * SECOND + 2000001, 0);
	CHECK_EQ(d.credit, DELIVERY_BYTE);
}

static void waits_through_an_outage(void)
{
	struct delivery d = of_rates(EPOCH + SECOND - SECOND / 10);

	/* 100 bytes until the outage, 20 at half the rate behind it. */
	CHECK_EQ(delivery_when(&d, 120), EPOCH + 3 * SECOND + SECOND / 25);
	CHECK_EQ(delivery_when(&d, 100), EPOCH + SECOND);
	d.credit = 1;
	CHECK_EQ(delivery_when(&d, 1), EPOCH + SECOND - SECOND / 10 + 1000000);
	steps[2].rate = 0;
	CHECK_EQ(delivery_when(&d, 120), DELIVERY_NEVER);
	steps[2].rate = 500;
}

/* Whoever asks at the time that it gives has the credit, and a ns before has it not. */
static void when_is_the_first_time_with_the_credit(void)
{
	u32 len;

	for (len = 1; len < 2000; len += 37) {
		struct delivery d = of_rates(EPOCH + 3), before = d;
		s64 when = delivery_when(&d, len);

		ROW("%u bytes", len);
		delivery_fill(&before, when - 1, len);
		CHECK(!delivery_take(&before, len));
		delivery_fill(&d, when, len);
		CHECK(delivery_take(&d, len));
	}
}

static void opportunities_come_at_the_beginning_of_a_millisecond(void)
{
	struct delivery d = of_trace(EPOCH);

	CHECK_EQ(delivery_when(&d, 1514), EPOCH + 3 * DELIVERY_MS);
	delivery_fill(&d, EPOCH + 3 * DELIVERY_MS - 1, 1514);
	CHECK(!delivery_take(&d, 1));
	delivery_fill(&d, EPOCH + 3 * DELIVERY_MS, 1514);
	CHECK_EQ(d.credit, 3028 * DELIVERY_BYTE);
	/* The trace repeats, */
	CHECK_EQ(delivery_when(&d, 9084), EPOCH + 4 * DELIVERY_MS);
	delivery_fill(&d, EPOCH + 8 * DELIVERY_MS, 9084);
	CHECK(delivery_take(&d, 9084));
	/* and what nobody waits for is lost. */
	delivery_fill(&d, EPOCH + 12 * DELIVERY_MS, 1);
	delivery_idle(&d, EPOCH + 12 * DELIVERY_MS);
	CHECK(!delivery_take(&d, 1));
}

static void trace_without_opportunities_sends_nothing(void)
{
	static u8 none[2];
	struct delivery d = { .trace = none, .length = 2 };

	CHECK_EQ(delivery_when(&d, 1), DELIVERY_NEVER);
}

static void trace_repeats_before_the_epoch_too(void)
{
	static const u8 around[] = { 1, 0, 0, 2, 1, 0, 0, 2, 1 };
	struct delivery d = of_trace(0);
	s64 ms;

	for (ms = -4; ms <= 4; ms++)
		CHECK_EQ(delivery_opportunities(&d, ms), around[ms + 4]);
	CHECK_EQ(delivery_ms(&d, EPOCH - 1), -1);
	CHECK_EQ(delivery_ms(&d, EPOCH - DELIVERY_MS), -1);
	CHECK_EQ(delivery_ms(&d, EPOCH), 0);
}

int main(void)
{
	RUN(begins_in_the_step_in_force);
	RUN(bucket_fills_up_to_its_burst);
	RUN(waits_through_an_outage);
	RUN(when_is_the_first_time_with_the_credit);
	RUN(opportunities_come_at_the_beginning_of_a_millisecond);
	RUN(trace_without_opportunities_sends_nothing);
	RUN(trace_repeats_before_the_epoch_too);
	return check_finish();
}
