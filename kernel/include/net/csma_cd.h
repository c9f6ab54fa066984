/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CSMA/CD: stations that share one half-duplex Ethernet wire.
 *
 * Source: IEEE 802.3, clause 4 (MAC) with the parameters of 4.4.2 for 10 and 100 Mb/s. Clause and
 * word are given where they decide something.
 *
 *	frame		preamble and delimiter 64 bits, the frame of 64 bytes or more with its FCS
 *	gap		96 bits between frames, seen by each station
 *	slot		512 bits
 *	jam		32 bits, behind the preamble if that is not over
 *	backoff		r slots, r uniform in 0 <= r < 2^min(n, 10), after a frame's n-th collision
 *	given up	after 16 attempts
 *
 * Every station hears every other `propagation` later. A station with a frame begins at
 *
 *	max(ready, heard + gap)
 *
 * where ready is when it got the frame or its backoff ends, and heard is when it last heard the
 * wire fall silent. It collides with a frame that began at b if it begins
 *
 * - before it hears that frame, below b + propagation, or
 * - at the end of a gap whose last third had begun when it heard the frame (4.2.3.2.2: carrier in
 *   interFrameSpacingPart2 is ignored).
 *
 * By the second rule stations that wait through one gap collide, however short the wire. From
 * there comes capture: who sent begins anew with one collision, who lost has more of them and
 * draws from a longer range, and loses again (K. K. Ramakrishnan and H. Yang, "The Ethernet
 * Capture Effect: Analysis and Solution", 1994).
 *
 * Decisions:
 * - A collision ends for all its stations at once: the last of them to begin sends its preamble,
 *   or hears the others, and jams. Slots count from there (4.2.3.2.5: from the end of jamming).
 *   The stations' own ends are less than the propagation apart.
 * - A collision after the first slot (a late one) cannot be: the propagation is below a slot.
 * - A frame is as long as its bytes say; what a repeater adds or takes of the preamble is not
 *   there.
 *
 * The caller has a clock and a queue for each station. It hands over a frame with
 * csma_cd_offer(), asks csma_cd_next() when something will happen, and calls csma_cd_step() at that
 * instant, not of another: instants follow from each other, not from when a timer fired. Where a
 * step says CSMA_CD_COLLIDED, csma_cd_back_off() is called for each station with `collided`.
 */
#ifndef NET_CSMA_CD_H
#define NET_CSMA_CD_H

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define CSMA_CD_PREAMBLE	64	/* bits, as are the next four */
#define CSMA_CD_GAP		96
#define CSMA_CD_GAP_LAST	32
#define CSMA_CD_JAM		32
#define CSMA_CD_SLOT		512
#define CSMA_CD_FCS		4	/* bytes */
#define CSMA_CD_LEAST		64	/* bytes, with FCS */
#define CSMA_CD_ATTEMPTS	16
#define CSMA_CD_DOUBLINGS	10
#define CSMA_CD_NEVER		U64_MAX

enum csma_cd_state {
	CSMA_CD_IDLE,
	CSMA_CD_SENDING,
	CSMA_CD_COLLISION,
};

enum csma_cd_event {
	CSMA_CD_BEGUN,		/* station `sender` sends */
	CSMA_CD_JAMMED,		/* another began too */
	CSMA_CD_SENT,		/* the frame of `sender` has arrived */
	CSMA_CD_COLLIDED,	/* silence after a collision */
};

struct csma_cd_params {
	u32 bit;		/* ns: 100 or 10 */
	u32 propagation;	/* ns, below a slot */
};

struct csma_cd_station {
	u64 ready;		/* ns */
	u64 heard;		/* ns */
	u32 bytes;		/* of its frame without FCS; 0: it has none */
	u8 attempts;		/* that collided */
	bool collided;
};

struct csma_cd_wire {
	enum csma_cd_state state;
	u32 sender;
	u64 begin, end;		/* ns, of what is on the wire */
	u64 busy, contention;	/* ns, of frames that arrived and of collisions */
};

static inline u64 csma_cd_bits(const struct csma_cd_params *p, u32 bits)
{
	return (u64)p->bit * bits;
}

/* How long a frame of so many bytes, FCS apart, is on the wire. */
static inline u64 csma_cd_frame(const struct csma_cd_params *p, u32 bytes)
{
	u32 whole = max_t(u32, bytes + CSMA_CD_FCS, CSMA_CD_LEAST);

	return csma_cd_bits(p, CSMA_CD_PREAMBLE + 8 * whole);
}

/* A station without a frame has one from now on. */
static inline void csma_cd_offer(struct csma_cd_station *s, u32 bytes, u64 now)
{
	s->bytes = bytes;
	s->ready = max(s->ready, now);
	s->attempts = 0;
}

/* When a station begins unless it hears another before. */
static inline u64 csma_cd_due(const struct csma_cd_params *p, const struct csma_cd_station *s)
{
	return s->bytes ? max(s->ready, s->heard + csma_cd_bits(p, CSMA_CD_GAP)) : CSMA_CD_NEVER;
}

/* When a station begins although others send since w->begin; never if it hears them in time. */
static inline u64 csma_cd_clash(const struct csma_cd_params *p, const struct csma_cd_wire *w,
				const struct csma_cd_station *s)
{
	u64 due = csma_cd_due(p, s), heard = w->begin + p->propagation;
	bool from_gap = due == s->heard + csma_cd_bits(p, CSMA_CD_GAP);

	if (s->collided)
		return CSMA_CD_NEVER;
	if (due == w->begin || due < heard ||
	    (from_gap && due <= heard + csma_cd_bits(p, CSMA_CD_GAP_LAST)))
		return due;
	return CSMA_CD_NEVER;
}

/* The station that begins next, and when; CSMA_CD_NEVER if none will. */
static inline u64 csma_cd_first(const struct csma_cd_params *p, const struct csma_cd_wire *w,
				const struct csma_cd_station *s, u32 n, u32 *who)
{
	u64 first = CSMA_CD_NEVER;

	for (u32 i = 0; i < n; i++) {
		u64 at;

		if (w->state == CSMA_CD_IDLE)
			at = csma_cd_due(p, &s[i]);
		else if (w->state == CSMA_CD_SENDING && i == w->sender)
			continue;
		else
			at = csma_cd_clash(p, w, &s[i]);
		if (at < first) {
			first = at;
			*who = i;
		}
	}
	return first;
}

/* When something happens next on a wire of n stations, if none gets a frame before. */
static inline u64 csma_cd_next(const struct csma_cd_params *p, const struct csma_cd_wire *w,
			       const struct csma_cd_station *s, u32 n)
{
	u32 who;
	u64 first = csma_cd_first(p, w, s, n, &who);

	return w->state == CSMA_CD_IDLE ? first : min(first, w->end);
}

static inline void csma_cd_silence(const struct csma_cd_params *p, struct csma_cd_wire *w,
				   struct csma_cd_station *s, u32 n)
{
	for (u32 i = 0; i < n; i++)
		s[i].heard = w->end + p->propagation;
	w->state = CSMA_CD_IDLE;
}

/* Let happen what csma_cd_next() gave the instant of. */
static inline enum csma_cd_event csma_cd_step(const struct csma_cd_params *p,
					      struct csma_cd_wire *w, struct csma_cd_station *s,
					      u32 n)
{
	u32 who = 0;
	u64 first = csma_cd_first(p, w, s, n, &who);

	if (w->state == CSMA_CD_IDLE) {
		w->state = CSMA_CD_SENDING;
		w->sender = who;
		w->begin = first;
		w->end = first + csma_cd_frame(p, s[who].bytes);
		return CSMA_CD_BEGUN;
	}
	if (first < w->end) {
		if (w->state == CSMA_CD_SENDING)
			s[w->sender].collided = true;
		s[who].collided = true;
		w->state = CSMA_CD_COLLISION;
		w->end = first + max_t(u64, csma_cd_bits(p, CSMA_CD_PREAMBLE), p->propagation) +
			 csma_cd_bits(p, CSMA_CD_JAM);
		return CSMA_CD_JAMMED;
	}
	if (w->state == CSMA_CD_COLLISION) {
		w->contention += w->end - w->begin;
		csma_cd_silence(p, w, s, n);
		return CSMA_CD_COLLIDED;
	}
	w->busy += w->end - w->begin;
	csma_cd_silence(p, w, s, n);
	s[w->sender].heard = w->end;
	s[w->sender].bytes = 0;
	return CSMA_CD_SENT;
}

/*
 * What a station does after its frame collided: it tries again later, or gives the frame up, which
 * false says. `random` is uniform over 10 bits or more.
 */
static inline bool csma_cd_back_off(const struct csma_cd_params *p, const struct csma_cd_wire *w,
				    struct csma_cd_station *s, u32 random)
{
	u32 range;

	s->collided = false;
	if (++s->attempts == CSMA_CD_ATTEMPTS) {
		s->bytes = 0;
		return false;
	}
	range = 1U << min_t(u32, s->attempts, CSMA_CD_DOUBLINGS);
	s->ready = w->end + csma_cd_bits(p, CSMA_CD_SLOT) * (random & (range - 1));
	return true;
}

/* A station is taken off the wire, in the middle of a frame if need be. */
static inline void csma_cd_leave(const struct csma_cd_params *p, struct csma_cd_wire *w,
				 struct csma_cd_station *s, u32 n, u32 who, u64 now)
{
	s[who].bytes = 0;
	s[who].collided = false;
	if (w->state == CSMA_CD_SENDING && w->sender == who) {
		w->end = now;
		csma_cd_silence(p, w, s, n);
	}
}

#endif /* NET_CSMA_CD_H */
