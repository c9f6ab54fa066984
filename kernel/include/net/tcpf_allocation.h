/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Algorithm 1 of the TCP-friendly marker: each interval's tokens are divided among the flows. See
 * tcpf_marker.h for the formulas and for r1 ... r22.
 */
#ifndef NET_TCPF_ALLOCATION_H
#define NET_TCPF_ALLOCATION_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include <net/max_min.h>
#include <net/tcpf_flows.h>

/* E of the interval that ends; whether the flow takes part in the tick (r13). */
static inline bool tcpf_estimate(const struct tcpf_params *p, struct tcpf_flow *f)
{
	u32 sent = f->sent;

	f->sent = 0;
	f->estimate = f->ticked ? (u32)(((u64)f->estimate + sent) / 2) : sent;
	if (sent == 0 && f->estimate < f->mss)
		return false;
	f->tiny = f->window < (u64)TCPF_TINY_SEGMENTS * f->mss << TCPF_WINDOW_SHIFT;
	f->demand = f->tiny && p->tiny_max ? max_t(u32, f->estimate, sent) : f->estimate;
	return true;
}

/* A flow that takes part no longer: what is left of it for its return. */
static inline void tcpf_retire(struct tcpf_flow *f)
{
	f->ticked = false;
	f->estimate = 0;
	f->in_count = min_t(s64, f->in_count, 0);
}

/*
 * Step I: estimates, who takes part, who is tiny; the sum of the tiny flows' demands. A closed
 * flow stays in the list until it is forgotten, with nothing to its name once it takes part no
 * longer.
 */
static inline u64 tcpf_assess(const struct tcpf_params *p, struct tcpf_marker *m, u64 at)
{
	u64 tiny_demand = 0;
	u32 i = 0;

	m->tiny_flows = 0;
	while (i < m->active_count) {
		u32 index = m->active[i];
		struct tcpf_flow *f = tcpf_flow(m, index);
		bool takes_part = tcpf_estimate(p, f);

		if (tcpf_is_closed(f) && at >= f->closed + 2 * p->interval) {
			tcpf_forget(m, index);	/* the last of the list is at i now */
			m->stats.expired++;
			continue;
		}
		if (!takes_part) {
			tcpf_retire(f);
			f->tiny = false;
			f->demand = 0;
			if (!tcpf_is_closed(f)) {
				tcpf_deactivate(m, f);
				continue;
			}
		}
		if (f->tiny) {
			m->tiny_flows++;
			tiny_demand += f->demand;
		}
		i++;
	}
	return tiny_demand;
}

/* max_min_alloc over the flows that are tiny, or over those that are not. */
static inline void tcpf_divide(struct tcpf_marker *m, u64 capacity, bool tiny)
{
	u32 i;

	max_min_begin(&m->level, capacity);
	do {
		for (i = 0; i < m->active_count; i++) {
			const struct tcpf_flow *f = tcpf_flow(m, m->active[i]);

			if (f->tiny == tiny)
				max_min_add(&m->level, f->demand);
		}
	} while (max_min_round(&m->level));
}

static inline void tcpf_allocate(const struct tcpf_params *p, struct tcpf_flow *f, u32 share)
{
	u64 most = TCPF_ONE;

	if (share > 0) {
		u64 packets = div_u64((u64)f->estimate << 32, share);	/* E / in_count */

		f->spacing = packets > TCPF_ONE ? packets - TCPF_ONE : 0;
		most += f->spacing;
	}
	f->count = min_t(u64, f->count, most);
	f->in_count = p->carry ? share + min_t(s64, f->in_count, 0) : share;
	f->ticked = true;
}

/* Step II; @at: when the tick was due. */
static inline void tcpf_tick(const struct tcpf_params *p, struct tcpf_marker *m, u64 at)
{
	u32 tokens = p->tokens - min_t(u32, m->debt, p->tokens);
	u64 tiny_demand = tcpf_assess(p, m, at);
	bool scarce = tiny_demand >= tokens;
	u32 i;

	m->debt = 0;
	m->pool = tokens;
	m->spare = tokens;
	m->stats.ticks++;
	tcpf_divide(m, scarce ? tokens : tokens - tiny_demand, scarce);
	for (i = 0; i < m->active_count; i++) {
		struct tcpf_flow *f = tcpf_flow(m, m->active[i]);
		u32 share = 0;

		if (f->demand == 0)
			continue;
		if (f->tiny == scarce)
			share = max_min_share(&m->level, f->demand);
		else if (f->tiny)
			share = f->demand;
		tcpf_allocate(p, f, share);
		m->spare -= share;
	}
}

/* Takes the ticks that are due. One that finds neither flows nor debt is like all after it. */
static inline void tcpf_advance(const struct tcpf_params *p, struct tcpf_marker *m, u64 now)
{
	u64 due;

	if (now < m->next_tick)
		return;
	due = div64_u64(now - m->next_tick, p->interval) + 1;
	while (due > 0) {
		bool settled = m->active_count == 0 && m->debt == 0;
		u64 ticks = settled ? due : 1;

		tcpf_tick(p, m, m->next_tick);
		m->stats.ticks += ticks - 1;
		m->next_tick += ticks * p->interval;
		due -= ticks;
	}
	tcpf_reap(m, now);
}

/*
 * From now on other parameters. What is due goes by the old ones; a new interval begins now, new
 * tokens come with the next tick. Estimates follow by themselves in a few ticks.
 */
static inline void tcpf_marker_change(struct tcpf_params *p, const struct tcpf_params *to,
				      struct tcpf_marker *m, u64 now)
{
	tcpf_advance(p, m, now);
	if (p->interval != to->interval)
		m->next_tick = now + to->interval;
	m->debt = min_t(u32, m->debt, to->tokens / 2);	/* r8, with fewer tokens too */
	*p = *to;
}

#endif /* NET_TCPF_ALLOCATION_H */
