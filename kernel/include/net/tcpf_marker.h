/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The TCP-friendly marker: Lo Monaco, Feroz, Kalyanaraman, "TCP Friendly Marking for Scalable
 * Best-Effort Services on the Internet", Algorithms 1 and 2, with an answer to every question
 * that they leave open.
 *
 * Each interval T the marker has M bytes of tokens for the N flows it sees. With, for each flow,
 *
 *	W	window estimate: running average of the bytes sent and not yet acknowledged
 *	E	smoothed number of bytes sent in one interval
 *	S	packets marked OUT between two marked IN
 *
 * Algorithm 1 runs at every multiple of T:
 *
 *	available = M - sum of E over the tiny flows (W < K * MSS, K = 4)
 *	if available <= 0:
 *		tiny flows:  in_count = max_min_alloc of M,         S = E / in_count - 1
 *		others:      in_count = 0
 *	else:
 *		tiny flows:  in_count = E,                          S = 0
 *		others:      in_count = max_min_alloc of available, S = E / in_count - 1
 *
 * and Algorithm 2 for every packet:
 *
 *	retransmission:		     IN
 *	in_count > 0 and count >= S: IN,  count -= S, in_count -= length
 *	in_count > 0:		     OUT, count += 1
 *	otherwise:		     OUT
 *
 * Fixed point. S and count are real numbers, kept as Q32.32. S is E * 2^32 / in_count - 2^32,
 * rounded down; it fits into 64 bits because E < 2^32. Call the rounded one s: 0 <= S - s < 2^-32.
 * A tick sets it anew: what follows is of packets between two ticks. While tokens last, m of n
 * packets become IN, and count moves by (n - m) - m * s. An IN takes s from a count of at least s,
 * and an OUT adds 1 to a count below s, hence
 *
 *	0 <= count <= s + 1
 *
 * if it held after the tick, which r4 sees to. So count moves by s + 1 at most:
 *
 *	|n - m * (1 + s)| <= s + 1,	that is		|m - n / (1 + s)| <= 1
 *
 * The share of IN is 1 / (1 + s), off by at most one packet over any stretch between two ticks,
 * however many packets it has, and 1 / (1 + s) exceeds 1 / (1 + S) by less than 2^-32. An OUT needs
 * count < s: there are floor(s) or ceil(s) of them between two INs.
 *
 * Decisions, where the algorithms leave something open; "paper" and "plain" are the switches of
 * tcpf_set_params(). r21, that segments come one by one, is the network's: offloads are off.
 *
 * r1	Everything is whole bytes: M, E, in_count, the shares. E is rounded down, so it stays less
 *	than one byte under the real average (each halving loses at most 1/2, and halves what was
 *	lost). "decrease in_count" is by the packet's length; by one where `by_one` is set, which
 *	the words allow too: then the spacing alone decides, as a share hardly ever runs out.
 * r2	One byte of tokens buys a whole packet. What a flow overdraws is taken from its next
 *	share, else a hundred flows would exceed M by a quarter; what it leaves unused is not. Off
 *	in "paper".
 * r3	S stays fractional: at a hundred flows it is about 0.7.
 * r4	count persists over ticks, but not above the new S + 1: a falling S would otherwise yield
 *	a burst of INs.
 * r5	Without tokens, count stands still.
 * r6	The demand for the max-min division is E; what nobody asked for is `spare`.
 * r7	A retransmission is IN always. It is paid from `spare`; what that cannot pay becomes
 *	`debt`, which the next interval's M is reduced by. In "paper" it costs nothing.
 * r8	Debt is at most M / 2: a storm of losses cannot starve all other packets.
 * r9	W is sampled at every forward data packet, gain 1/8, starting with the first sample.
 * r10	When the first unacknowledged segment is sent again 200 ms or more after the last
 *	progress, the timer has expired and the sender's window is one segment: W = MSS.
 *	"Progress" is an advance of the ACKs, or data sent when nothing was outstanding: what
 *	(re)starts the sender's own timer. Off in "paper" and in "plain".
 * r11	MSS is the option in the SYN of the data's receiver, less 12 if segments carry timestamps;
 *	without that option, the largest payload seen, at least 536 (what TCP assumes then, RFC
 *	9293), so that a flow of keystrokes stays tiny.
 * r12	Before a flow's first tick nothing is allocated to it: it is IN while `spare` lasts.
 * r13	A flow takes part in a tick if it sent data in the interval or E >= MSS. One that takes
 *	part no longer is like a new flow when it comes back - its old E would halve the estimate
 *	- except for W and what it overdrew. It is forgotten two intervals after FINs of both
 *	sides or one RST (nothing follows an RST), or after 120 s of silence.
 * r14	A retransmission has payload and starts before the highest byte seen; this includes
 *	partial overlap. One byte at most, just before the highest byte seen, is a keep-alive or a
 *	probe of a closed window and is not.
 * r15	SYN, FIN and RST without data: IN, paid from `spare` as far as it goes, never by debt,
 *	which a flood of SYNs could drive up. A SYN or RST with data is IN only if `spare` pays
 *	for all of it, else who sets SYN on every packet would have all of them IN. Pure ACKs: IN
 *	and free. None of them moves W or E.
 * r16	Each direction of a connection is a flow of its own; only the forward one is marked here.
 * r17	Sequence numbers compare modulo 2^32. An ACK is believed if it acknowledges data that was
 *	seen; so una never passes snd_max, and a difference of 2^31 or more is not a window.
 * r18	"No token left" is available <= 0.
 * r19	Then flows that are not tiny get nothing but their retransmissions.
 * r20	A tiny flow's demand is the larger of E and the last interval's bytes: its window may
 *	double twice in an interval. S follows from E all the same. In "paper", E.
 * r22	Lengths: of the IP packet for tokens, of the payload for W.
 *
 * And further:
 *
 * - Not TCP, or a fragment: OUT. No window can be seen that would need protection, and a share of
 *   `spare` would let a sender that does not back off take what retransmissions and new flows are
 *   paid from.
 * - Where the sender's first ACK has not been seen, una is where the flow was first seen: a flow
 *   whose ACKs take another way looks as if its window grew without end, and gets no priority.
 * - Only data makes a flow's record, so SYNs cost nobody's; the MSS of handshakes under way is
 *   kept in a small table of its own. When the table is full, the flow that was silent for
 *   longest goes.
 * - Ticks are taken when a packet comes. If several have passed, they are worked off one by one
 *   until no flow takes part any longer: a silent flow's E halves, so that from below 2^32 it is
 *   below the least MSS, 88, after 27 ticks at the latest.
 *
 * Cost of a packet: one or two look-ups in a hash table. Cost of a tick: at most six passes over
 * the flows that take part in it, in no order; see max_min.h.
 */
#ifndef NET_TCPF_MARKER_H
#define NET_TCPF_MARKER_H

#include <linux/minmax.h>
#include <linux/types.h>

#include <net/flow_key.h>
#include <net/flow_table.h>
#include <net/packet_parse.h>
#include <net/tcpf_allocation.h>
#include <net/tcpf_flows.h>

static inline void tcpf_pay(struct tcpf_marker *m, u32 len)
{
	m->pool -= min_t(u32, m->pool, len);
}

/* r7, r8 */
static inline void tcpf_charge(const struct tcpf_params *p, struct tcpf_marker *m, u32 len)
{
	u32 paid = min_t(u32, m->spare, len);

	m->spare -= paid;
	tcpf_pay(m, paid);
	m->debt = min_t(u32, m->debt + (len - paid), p->tokens / 2);
}

/* r14 */
static inline bool tcpf_is_retransmission(const struct tcpf_flow *f, const struct packet_info *info)
{
	bool probe = info->payload == 1 && info->seq == f->snd_max - 1;	/* of none is a pure ACK */

	return tcpf_before(info->seq, f->snd_max) && !probe;
}

/* r11 */
static inline void tcpf_learn_mss(struct tcpf_flow *f, const struct packet_info *info)
{
	u32 largest = max_t(u32, f->mss, TCPF_MSS_UNKNOWN);

	u32 options = info->timestamps ? TCPF_TIMESTAMPS_BYTES : 0;

	if (f->mss_option > 0)
		f->mss = (u16)max_t(u32, f->mss_option - options, TCPF_MSS_MIN);
	else
		f->mss = (u16)min_t(u32, max_t(u32, largest, info->payload), 65535);
}

static inline void tcpf_extend(struct tcpf_flow *f, u32 end)
{
	if (tcpf_before(f->snd_max, end))
		f->snd_max = end;
}

/*
 * r9. With w = W * 2^16 and the gain 1/8, w += (sample * 2^16 - w) / 8. As w / 8 is rounded down,
 * each sample makes w too large by less than 1, and keeps 7/8 of the error before it: W is less
 * than 8 / 2^16 bytes too large, and never too small.
 */
static inline void tcpf_sample_window(struct tcpf_flow *f)
{
	u32 in_flight = f->snd_max - f->una;

	if (in_flight >= 1U << 31)
		return;
	if (!f->sampled)
		f->window = (u64)in_flight << TCPF_WINDOW_SHIFT;
	else
		f->window += ((u64)in_flight << (TCPF_WINDOW_SHIFT - 3)) - (f->window >> 3);
	f->sampled = true;
}

/* What the flow's data says; is it a retransmission? */
static inline bool tcpf_observe(const struct tcpf_params *p, struct tcpf_flow *f,
				const struct packet_info *info, u64 now)
{
	u32 end = info->seq + info->payload + !!(info->flags & PACKET_TCP_FIN);
	bool again = tcpf_is_retransmission(f, info);

	f->sent = (u32)min_t(u64, (u64)f->sent + info->len, ~0U);
	tcpf_learn_mss(f, info);
	if (f->una == f->snd_max)
		f->progress = now;
	tcpf_extend(f, end);
	tcpf_sample_window(f);
	if (!again)
		f->ended &= (u8)~TCPF_RESET;	/* the RST was nobody's whom the sender believed */
	else if (p->rto_window && info->seq == f->una && now >= f->progress + TCPF_RTO_MIN)
		f->window = (u64)f->mss << TCPF_WINDOW_SHIFT;
	return again;
}

static inline enum tcpf_reason tcpf_mark_new(struct tcpf_marker *m, u32 len)
{
	if (m->spare < len)
		return TCPF_NO_SPARE;
	m->spare -= len;
	tcpf_pay(m, len);
	return TCPF_NEW;
}

static inline enum tcpf_reason tcpf_mark_data(const struct tcpf_params *p, struct tcpf_marker *m,
					      u32 index, const struct packet_info *info, u64 now)
{
	struct tcpf_flow *f = tcpf_flow(m, index);
	bool again;

	tcpf_activate(m, index);
	again = tcpf_observe(p, f, info, now);
	if (again && p->protect) {			/* (b) */
		if (p->charge)
			tcpf_charge(p, m, info->len);
		return TCPF_RETRANSMISSION;
	}
	if (!f->ticked)
		return tcpf_mark_new(m, info->len);
	if (f->in_count <= 0)				/* (d) */
		return TCPF_NO_TOKENS;
	if (f->count < f->spacing) {			/* (c.2) */
		f->count += TCPF_ONE;
		return TCPF_SPACED;
	}
	f->count -= f->spacing;				/* (c.1) */
	f->in_count -= p->by_one ? 1 : info->len;
	tcpf_pay(m, info->len);
	return f->tiny ? TCPF_TINY : TCPF_ALLOCATED;
}

/*
 * A SYN says that the ports are used again, even if no end was seen: a host that restarts says no
 * goodbye, and with the old snd_max everything of the new connection could be a retransmission. A
 * record is made by data, which no first SYN comes after. A SYN with an ACK may come after data,
 * as its sender repeats it while the ACK of it is lost: there an end must have been seen.
 */
static inline bool tcpf_is_reused(const struct tcpf_marker *m, u32 index,
				  const struct packet_info *info)
{
	if (!(info->flags & PACKET_TCP_SYN))
		return false;
	return !(info->flags & PACKET_TCP_ACK) || tcpf_flow(m, index)->ended;
}

/* r15: how SYN, FIN and RST are paid for. */
static inline enum tcpf_reason tcpf_pay_control(struct tcpf_marker *m,
						const struct packet_info *info)
{
	u32 paid = min_t(u32, m->spare, info->len);

	if (info->payload > 0)
		return tcpf_mark_new(m, info->len);
	m->spare -= paid;
	tcpf_pay(m, paid);
	return TCPF_CONTROL;
}

/* SYN, RST; FIN without data. */
static inline enum tcpf_reason tcpf_mark_control(struct tcpf_marker *m,
						 const struct packet_info *info, u64 now)
{
	u32 hash = flow_key_hash(&m->hash, &info->key);
	u32 index = tcpf_find(m, &info->key, hash, now);
	enum tcpf_reason reason = tcpf_pay_control(m, info);

	if (index == FLOW_TABLE_NONE)
		return reason;
	if (tcpf_is_reused(m, index, info)) {
		tcpf_forget(m, index);
	} else if (info->flags & PACKET_TCP_RST) {
		tcpf_end(m, index, TCPF_RESET, now);
	} else if (info->flags & PACKET_TCP_FIN) {
		tcpf_extend(tcpf_flow(m, index), info->seq + 1);
		tcpf_end(m, index, TCPF_FIN_FORWARD, now);
	}
	return reason;
}

static inline enum tcpf_reason tcpf_mark_tcp(const struct tcpf_params *p, struct tcpf_marker *m,
					     const struct packet_info *info, u64 now)
{
	u32 hash, index;

	if (info->flags & (PACKET_TCP_SYN | PACKET_TCP_RST) ||
	    (info->payload == 0 && (info->flags & PACKET_TCP_FIN)))
		return tcpf_mark_control(m, info, now);
	if (info->payload == 0)
		return TCPF_ACK;
	hash = flow_key_hash(&m->hash, &info->key);
	index = tcpf_find(m, &info->key, hash, now);
	if (index == FLOW_TABLE_NONE)
		index = tcpf_new(m, info, hash, now);
	if (info->flags & PACKET_TCP_FIN)
		tcpf_end(m, index, TCPF_FIN_FORWARD, now);
	return tcpf_mark_data(p, m, index, info, now);
}

/**
 * tcpf_mark() - a packet in the direction that is marked
 * @p: the parameters
 * @m: the marker
 * @kind: what packet_parse() said
 * @info: what it found
 * @now: ns
 */
static inline enum tcpf_verdict tcpf_mark(const struct tcpf_params *p, struct tcpf_marker *m,
					  enum packet_kind kind, const struct packet_info *info,
					  u64 now)
{
	enum tcpf_reason reason = TCPF_UNPARSEABLE;

	tcpf_advance(p, m, now);
	if (kind == PACKET_TCP)
		reason = tcpf_mark_tcp(p, m, info, now);
	else if (kind == PACKET_IP)
		reason = TCPF_OTHER;
	m->stats.packets[reason]++;
	if (reason == TCPF_UNPARSEABLE)
		return TCPF_LEAVE;
	m->stats.bytes[reason] += info->len;
	return reason <= TCPF_ALLOCATED ? TCPF_IN : TCPF_OUT;
}

/**
 * tcpf_read_reverse() - a packet in the other direction, which is only read
 * @p: the parameters
 * @m: the marker
 * @kind: what packet_parse() said
 * @info: what it found
 * @now: ns
 */
static inline void tcpf_read_reverse(const struct tcpf_params *p, struct tcpf_marker *m,
				     enum packet_kind kind, const struct packet_info *info,
				     u64 now)
{
	struct flow_key key;
	struct tcpf_flow *f;
	u32 hash, index;

	tcpf_advance(p, m, now);
	if (kind != PACKET_TCP)
		return;
	flow_key_reverse(&key, &info->key);
	hash = flow_key_hash(&m->hash, &key);
	index = tcpf_find(m, &key, hash, now);
	if (index != FLOW_TABLE_NONE && tcpf_is_reused(m, index, info)) {
		tcpf_forget(m, index);
		index = FLOW_TABLE_NONE;
	}
	if (index == FLOW_TABLE_NONE) {
		if (info->mss > 0)	/* then it is a SYN */
			tcpf_note_handshake(m, &key, hash, info->mss);
		return;
	}
	f = tcpf_flow(m, index);
	if ((info->flags & PACKET_TCP_ACK) && tcpf_before(f->una, info->ack_seq) &&
	    !tcpf_before(f->snd_max, info->ack_seq)) {
		f->una = info->ack_seq;
		f->progress = now;
	}
	if (info->flags & PACKET_TCP_RST)
		tcpf_end(m, index, TCPF_RESET, now);
	else if (info->flags & PACKET_TCP_FIN)
		tcpf_end(m, index, TCPF_FIN_REVERSE, now);
}

#endif /* NET_TCPF_MARKER_H */
