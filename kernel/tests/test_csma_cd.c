// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/csma_cd.h. */
#include <math.h>

#include "check.h"

#include <net/csma_cd.h>

#define US	1000ULL
#define SLOT	(51200ULL)
#define GAP	(9600ULL)

static const struct csma_cd_params ten = { .bit = 100, .propagation = 1 * US };

static u64 drawn = 88172645463325252ULL;

/* xorshift64: Marsaglia, "Xorshift RNGs", 2003 */
static u32 draw(void)
{
	drawn ^= drawn << 13;
	drawn ^= drawn >> 7;
	drawn ^= drawn << 17;
	return drawn >> 20;
}

struct wire {
	struct csma_cd_params p;
	struct csma_cd_wire mac;
	struct csma_cd_station s[32];
	u32 n;
	u64 now, sent, given_up;
};

static enum csma_cd_event step(struct wire *w)
{
	w->now = csma_cd_next(&w->p, &w->mac, w->s, w->n);
	return csma_cd_step(&w->p, &w->mac, w->s, w->n);
}

/* Stations that have a frame of so many bytes whenever they may send, for so long. */
static void saturate(struct wire *w, u32 bytes, u64 until)
{
	for (u32 i = 0; i < w->n; i++)
		csma_cd_offer(&w->s[i], bytes, 0);
	while (w->now < until) {
		switch (step(w)) {
		case CSMA_CD_SENT:
			w->sent++;
			csma_cd_offer(&w->s[w->mac.sender], bytes, w->now);
			break;
		case CSMA_CD_COLLIDED:
			for (u32 i = 0; i < w->n; i++) {
				if (!w->s[i].collided ||
				    csma_cd_back_off(&w->p, &w->mac, &w->s[i], draw()))
					continue;
				w->given_up++;
				csma_cd_offer(&w->s[i], bytes, w->now);
			}
			break;
		default:
			break;
		}
	}
}

static void a_frame_is_as_long_as_its_bytes(void)
{
	static const struct {
		u32 bit, bytes;
		u64 ns;
	} rows[] = {
		{ 100, 1, 57600 },	/* padded */
		{ 100, 60, 57600 },
		{ 100, 61, 58400 },
		{ 100, 1514, 1220800 },
		{ 10, 60, 5760 },
		{ 10, 1514, 122080 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct csma_cd_params p = { .bit = rows[i].bit };

		ROW("row %zu", i);
		CHECK_EQ(csma_cd_frame(&p, rows[i].bytes), rows[i].ns);
	}
}

static void one_station_sends_at_line_rate(void)
{
	static const struct {
		u32 bit, bytes;
		u64 sent;	/* in 10 s: 10^11 / (frame and gap) */
	} rows[] = {
		{ 100, 60, 148809 },
		{ 100, 1514, 8127 },
		{ 10, 60, 1488095 },
		{ 10, 1514, 81274 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct wire w = { .p = { .bit = rows[i].bit }, .n = 1 };

		ROW("row %zu", i);
		saturate(&w, rows[i].bytes, 10000000 * US);
		CHECK(w.sent - rows[i].sent <= 1);
		CHECK_EQ(w.mac.contention, 0);
		CHECK_EQ(w.mac.busy, w.sent * csma_cd_frame(&w.p, rows[i].bytes));
	}
}

/* The first has a frame at 0; when has the other to have one for them to collide? */
static void stations_collide_that_do_not_hear_each_other_yet(void)
{
	static const struct {
		u64 ready;
		bool collides;
	} rows[] = {
		{ 0, true },
		{ GAP, true },			/* both waited for the end of the gap */
		{ GAP + 1, true },
		{ GAP + 1 * US - 1, true },
		{ GAP + 1 * US, false },	/* hears it */
		{ GAP + 2 * US, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct wire w = { .p = ten, .n = 2 };

		ROW("row %zu", i);
		csma_cd_offer(&w.s[0], 1514, 0);
		CHECK_EQ(step(&w), CSMA_CD_BEGUN);
		CHECK_EQ(w.now, GAP);
		csma_cd_offer(&w.s[1], 1514, rows[i].ready);
		CHECK_EQ(step(&w), rows[i].collides ? CSMA_CD_JAMMED : CSMA_CD_SENT);
		CHECK_EQ(w.s[0].collided, rows[i].collides);
		if (!rows[i].collides)
			CHECK_EQ(w.now, GAP + 1220800);
	}
}

/* On a wire without length too: who begins at the same instant cannot have heard the other. */
static void backoffs_that_end_together_collide(void)
{
	for (u64 later = 0; later < 2; later++) {
		struct wire w = { .p = { .bit = 100 }, .n = 2 };

		ROW("%llu ns later", (unsigned long long)later);
		csma_cd_offer(&w.s[0], 1514, SLOT);
		csma_cd_offer(&w.s[1], 1514, SLOT + later);
		CHECK_EQ(step(&w), CSMA_CD_BEGUN);
		CHECK_EQ(step(&w), later ? CSMA_CD_SENT : CSMA_CD_JAMMED);
	}
}

/* Who heard the wire fall silent late ends its gap late: carrier in the last third is ignored. */
static void a_gap_in_its_last_third_is_not_begun_anew(void)
{
	static const struct {
		u64 heard;
		bool collides;
	} rows[] = {
		{ 0, true }, { 1 * US, true }, { 4200, true }, { 4201, false }, { 9 * US, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct wire w = { .p = ten, .n = 2 };

		ROW("row %zu", i);
		w.s[1].heard = rows[i].heard;
		csma_cd_offer(&w.s[0], 60, 0);
		csma_cd_offer(&w.s[1], 60, 0);
		CHECK_EQ(step(&w), CSMA_CD_BEGUN);
		CHECK_EQ(step(&w), rows[i].collides ? CSMA_CD_JAMMED : CSMA_CD_SENT);
	}
}

static void a_collision_lasts_as_long_as_its_preamble_and_jam(void)
{
	struct wire w = { .p = ten, .n = 4 };

	for (u32 i = 0; i < 3; i++)
		csma_cd_offer(&w.s[i], 1514, 500 * i);
	csma_cd_offer(&w.s[3], 1514, GAP + 2 * US);	/* hears the first */
	CHECK_EQ(step(&w), CSMA_CD_BEGUN);
	CHECK_EQ(step(&w), CSMA_CD_JAMMED);
	CHECK_EQ(step(&w), CSMA_CD_JAMMED);
	CHECK_EQ(step(&w), CSMA_CD_COLLIDED);
	CHECK_EQ(w.now, 2 * GAP);
	CHECK_EQ(w.mac.contention, GAP);
	CHECK(w.s[0].collided && w.s[1].collided && w.s[2].collided && !w.s[3].collided);

	w = (struct wire){ .p = { .bit = 100, .propagation = 20 * US }, .n = 2 };
	csma_cd_offer(&w.s[0], 1514, 0);
	csma_cd_offer(&w.s[1], 1514, GAP + 19 * US);
	step(&w);
	step(&w);
	CHECK_EQ(step(&w), CSMA_CD_COLLIDED);
	CHECK_EQ(w.now, GAP + 19 * US + 20 * US + 3200);
}

static void backoff_doubles_to_1024_slots_and_ends_with_the_sixteenth_attempt(void)
{
	struct csma_cd_wire mac = { .end = 7 };
	struct csma_cd_station s = { .bytes = 60 };

	for (u32 n = 1; n < 16; n++) {
		ROW("collision %u", n);
		s.collided = true;
		CHECK(csma_cd_back_off(&ten, &mac, &s, U32_MAX));
		CHECK_EQ(s.ready, 7 + SLOT * ((1 << (n < 10 ? n : 10)) - 1));
		CHECK(!s.collided);
	}
	CHECK(!csma_cd_back_off(&ten, &mac, &s, 0));
	CHECK_EQ(csma_cd_due(&ten, &s), CSMA_CD_NEVER);
	csma_cd_offer(&s, 60, 9);
	CHECK_EQ(s.attempts, 0);
}

static void who_is_gone_sends_nothing(void)
{
	struct wire w = { .p = ten, .n = 2 };

	CHECK_EQ(csma_cd_next(&w.p, &w.mac, w.s, w.n), CSMA_CD_NEVER);
	csma_cd_offer(&w.s[0], 1514, 0);
	step(&w);
	csma_cd_offer(&w.s[1], 1514, GAP + 5 * US);
	csma_cd_leave(&w.p, &w.mac, w.s, w.n, 0, GAP + 8 * US);
	CHECK_EQ(step(&w), CSMA_CD_BEGUN);
	CHECK_EQ(w.now, GAP + 8 * US + 1 * US + GAP);
	csma_cd_leave(&w.p, &w.mac, w.s, w.n, 0, w.now);	/* not the sender */
	CHECK_EQ(step(&w), CSMA_CD_SENT);
	csma_cd_leave(&w.p, &w.mac, w.s, w.n, 1, w.now);
	CHECK_EQ(csma_cd_next(&w.p, &w.mac, w.s, w.n), CSMA_CD_NEVER);
}

/*
 * Two stations that always have a frame: the winner of a collision draws from two slots, the loser
 * of n collisions from 2^n. The winner is first with probability 1 - 3/2 / 2^n, both are at once
 * with 1 / 2^n (Ramakrishnan and Yang 1994: 5/8, 13/16, 29/32, ...).
 */
static void the_winner_of_a_collision_wins_the_next_ones(void)
{
	u64 met[6] = { 0 }, won[6] = { 0 }, again[6] = { 0 };
	struct wire w = { .p = ten, .n = 2 };
	u32 loser = 2, level = 0;

	csma_cd_offer(&w.s[0], 1514, 0);
	csma_cd_offer(&w.s[1], 1514, 0);
	for (int i = 0; i < 6000000; i++) {
		switch (step(&w)) {
		case CSMA_CD_JAMMED:
			level = loser < 2 && !w.s[!loser].attempts ? w.s[loser].attempts + 1 : 0;
			break;
		case CSMA_CD_COLLIDED:
			for (u32 k = 0; k < 2; k++)
				if (w.s[k].collided &&
				    !csma_cd_back_off(&w.p, &w.mac, &w.s[k], draw()))
					csma_cd_offer(&w.s[k], 1514, w.now);
			if (level < 2 || level > 5)
				break;
			met[level]++;
			won[level] += w.s[!loser].ready < w.s[loser].ready;
			again[level] += w.s[0].ready == w.s[1].ready;
			break;
		case CSMA_CD_SENT:
			loser = !w.mac.sender;
			csma_cd_offer(&w.s[w.mac.sender], 1514, w.now);
			break;
		default:
			break;
		}
	}
	for (u32 n = 2; n <= 5; n++) {
		double range = 1 << n;

		ROW("level %u, met %llu times", n, (unsigned long long)met[n]);
		CHECK(met[n] > 10000);
		CHECK(fabs(won[n] / (double)met[n] - (1 - 1.5 / range)) < 0.01);
		CHECK(fabs(again[n] / (double)met[n] - 1 / range) < 0.01);
	}
}

int main(void)
{
	RUN(a_frame_is_as_long_as_its_bytes);
	RUN(one_station_sends_at_line_rate);
	RUN(stations_collide_that_do_not_hear_each_other_yet);
	RUN(backoffs_that_end_together_collide);
	RUN(a_gap_in_its_last_third_is_not_begun_anew);
	RUN(a_collision_lasts_as_long_as_its_preamble_and_jam);
	RUN(backoff_doubles_to_1024_slots_and_ends_with_the_sixteenth_attempt);
	RUN(who_is_gone_sends_nothing);
	RUN(the_winner_of_a_collision_wins_the_next_ones);
	return check_finish();
}
