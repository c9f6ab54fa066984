// SPDX-License-Identifier: GPL-2.0
/* Algorithm 2 by hand: packets in both directions, and what becomes of each. */
#include <net/tcpf_marker.h>

#include "tcpf_case.h"

#define ACK PACKET_TCP_ACK
#define SYN PACKET_TCP_SYN
#define FIN PACKET_TCP_FIN
#define RST PACKET_TCP_RST

static struct packet_info packet(u32 flow, u32 seq, u32 payload, u8 flags)
{
	struct packet_info info = {
		.len = 40 + payload, .seq = seq, .payload = payload, .flags = flags,
	};

	set_key(&info.key, flow);
	return info;
}

/* Why a packet is marked as it is: the counter that moves. */
static enum tcpf_reason mark_info(enum packet_kind kind, const struct packet_info *info, u64 now)
{
	struct tcpf_stats before = marker.stats;
	enum tcpf_verdict verdict = tcpf_mark(&params, &marker, kind, info, now);
	int reason = 0;

	while (reason < TCPF_REASONS - 1 &&
	       marker.stats.packets[reason] == before.packets[reason])
		reason++;
	CHECK_EQ(marker.stats.packets[reason], before.packets[reason] + 1);
	CHECK_EQ(marker.stats.bytes[reason],
		 before.bytes[reason] + (kind == PACKET_UNPARSEABLE ? 0 : info->len));
	CHECK_EQ(verdict, reason == TCPF_UNPARSEABLE ? TCPF_LEAVE :
			  reason <= TCPF_ALLOCATED   ? TCPF_IN :
						       TCPF_OUT);
	return reason;
}

static enum tcpf_reason mark(u32 flow, u32 seq, u32 payload, u8 flags, u64 now)
{
	struct packet_info info = packet(flow, seq, payload, flags);

	return mark_info(PACKET_TCP, &info, now);
}

static enum tcpf_reason data(u32 seq, u32 payload, u64 now)
{
	return mark(1, seq, payload, ACK, now);
}

static void reverse(u32 ack_seq, u8 flags, u16 mss, u64 now)
{
	struct flow_key key;
	struct packet_info info = packet(1, 0, 0, flags);

	key = info.key;
	flow_key_reverse(&info.key, &key);
	info.ack_seq = ack_seq;
	info.mss = mss;
	tcpf_read_reverse(&params, &marker, PACKET_TCP, &info, now);
}

static struct tcpf_flow *flow(void)
{
	return tcpf_flow(&marker, look_up(1));
}

static bool known(void)
{
	return look_up(1) != FLOW_TABLE_NONE;
}

/* Gives flow 1 tokens without a tick. */
static void grant(s64 in_count, u64 spacing, u64 count)
{
	flow()->ticked = true;
	flow()->in_count = in_count;
	flow()->spacing = spacing;
	flow()->count = count;
}

static void what_is_no_data(void)
{
	struct packet_info info = packet(1, 5, 0, ACK);

	start(300, false, false, 4);
	CHECK_EQ(mark_info(PACKET_UNPARSEABLE, &info, T0), TCPF_UNPARSEABLE);
	CHECK_EQ(mark_info(PACKET_IP, &info, T0), TCPF_OTHER);
	CHECK_EQ(mark(1, 5, 0, ACK, T0), TCPF_ACK);
	CHECK_EQ(marker.spare, 300);
	ROW("control is paid from what is spare");
	CHECK_EQ(mark(1, 5, 0, SYN, T0), TCPF_CONTROL);
	CHECK_EQ(mark(1, 5, 0, FIN | ACK, T0), TCPF_CONTROL);
	CHECK_EQ(mark(1, 5, 0, RST, T0), TCPF_CONTROL);
	CHECK_EQ(marker.spare, 180);
	ROW("with data, only what is spare pays for all of it");
	CHECK_EQ(mark(1, 5, 140, SYN, T0), TCPF_NEW);
	CHECK_EQ(marker.spare, 0);
	CHECK_EQ(mark(1, 5, 1000, SYN, T0), TCPF_NO_SPARE);
	CHECK_EQ(mark(1, 5, 1000, RST, T0), TCPF_NO_SPARE);
	CHECK_EQ(mark(1, 5, 0, SYN, T0), TCPF_CONTROL);
	CHECK_EQ(marker.spare, 0);
	CHECK_EQ(marker.pool, 0);
	CHECK_EQ(marker.debt, 0);
	ROW("and makes no record");
	CHECK_EQ(marker.flows.count, 0);
	CHECK_EQ(marker.handshakes.count, 0);
}

static void new_flows(void)
{
	start(2080, false, false, 4);
	CHECK_EQ(data(100, 1000, T0), TCPF_NEW);
	CHECK_EQ(data(1100, 1001, T0), TCPF_NO_SPARE);
	CHECK_EQ(marker.spare, 1040);
	CHECK_EQ(data(2101, 1000, T0), TCPF_NEW);
	CHECK_EQ(marker.spare, 0);
	CHECK_EQ(marker.pool, 0);
	CHECK_EQ(flow()->sent, 3121);
	CHECK_EQ(mark(1, 3101, 100, FIN | ACK, T0), TCPF_NO_SPARE);
	CHECK_EQ(flow()->snd_max, 3202);
	CHECK_EQ(flow()->ended, TCPF_FIN_FORWARD);
}

/* count against S: below, at, above; tokens: some, one, none. */
static void spacing(void)
{
	static const struct {
		s64 in_count;
		u64 spacing, count;
		enum tcpf_reason reason;
		s64 in_count_then;
		u64 count_then;
	} table[] = {
		{ 5000, 0, 0, TCPF_ALLOCATED, 3960, 0 },
		{ 1, 0, 7, TCPF_ALLOCATED, -1039, 7 },
		{ 0, 0, 0, TCPF_NO_TOKENS, 0, 0 },
		{ 0, 5, 3, TCPF_NO_TOKENS, 0, 3 },
		{ -1, 0, 0, TCPF_NO_TOKENS, -1, 0 },
		{ 1, 2 * TCPF_ONE, 2 * TCPF_ONE - 1, TCPF_SPACED, 1, 3 * TCPF_ONE - 1 },
		{ 1, 2 * TCPF_ONE, 2 * TCPF_ONE, TCPF_ALLOCATED, -1039, 0 },
		{ 1, 2 * TCPF_ONE, 2 * TCPF_ONE + 1, TCPF_ALLOCATED, -1039, 1 },
	};
	u32 row;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("row %u", row);
		start(2000, false, false, 4);
		data(0, 1000, T0);
		grant(table[row].in_count, table[row].spacing, table[row].count);
		CHECK_EQ(data(1000, 1000, T0), table[row].reason);
		CHECK_EQ(flow()->in_count, table[row].in_count_then);
		CHECK_EQ(flow()->count, table[row].count_then);
		CHECK_EQ(marker.pool, table[row].reason == TCPF_ALLOCATED ? 0 : 960);
		CHECK_EQ(marker.spare, 960);
	}
	ROW("by one");
	params.by_one = true;
	grant(2, 0, 0);
	CHECK_EQ(data(2000, 1000, T0), TCPF_ALLOCATED);
	CHECK_EQ(flow()->in_count, 1);
	ROW("tiny");
	grant(10, 0, 0);
	flow()->tiny = true;
	CHECK_EQ(data(3000, 1000, T0), TCPF_TINY);
}

/* The share of IN among n packets is within one packet of n / (1 + s), for every n. */
static void exact_share(void)
{
	static const struct {
		u32 estimate, share;
	} table[] = {
		{ 125, 100 }, { 169, 100 }, { 250, 100 }, { 350, 100 }, { 470, 100 }, { 1100, 100 },
		{ 4, 3 }, { 296000, 295999 }, { 1000001, 1000 },
	};
	u32 row, n, in, run, longest;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		double wanted = (double)table[row].share / table[row].estimate;
		double s = 1 / wanted - 1;

		ROW("S = %g", s);
		start(2000, true, false, 4);
		data(0, 1000, T0);
		flow()->estimate = table[row].estimate;
		tcpf_allocate(&params, flow(), table[row].share);
		for (n = 1, in = run = longest = 0; n <= 20000; n++) {
			flow()->in_count = 1 << 30;
			if (data(n * 1000, 1000, T0) == TCPF_SPACED) {
				longest = ++run > longest ? run : longest;
			} else {
				in++;
				run = 0;
			}
			if (in - n * wanted > 1 + 1e-3 || n * wanted - in > 1 + 1e-3)
				break;
		}
		CHECK_EQ(n, 20001);
		CHECK(longest >= (u32)s && longest <= (u32)s + 1);
	}
}

/* Before, at and behind the highest byte seen; across the wrap (r14, r17). */
static void retransmissions(void)
{
	static const struct {
		u32 first, seq, payload;
		bool again;
	} table[] = {
		{ 1000, 2000, 1000, false }, { 1000, 2001, 1000, false },
		{ 1000, 1999, 1, false },    { 1000, 1999, 2, true },
		{ 1000, 1998, 1, true },     { 1000, 1000, 1000, true },
		{ 1000, 1500, 1000, true },  { 1000, 999, 1000, true },
		{ ~0U - 499, 500, 1000, false }, { ~0U - 499, 499, 1000, true },
		{ ~0U - 499, ~0U, 1000, true },  { ~0U - 499, 499, 1, false },
		{ 0, 1000 + 0x7fffffffU, 1000, false }, { 0, 1000 + 0x80000001, 1000, true },
	};
	u32 row;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("row %u", row);
		start(100000, false, false, 4);
		data(table[row].first, 1000, T0);
		CHECK_EQ(data(table[row].seq, table[row].payload, T0) == TCPF_RETRANSMISSION,
			 table[row].again);
		start(100000, true, true, 4);
		data(table[row].first, 1000, T0);
		CHECK_EQ(data(table[row].seq, table[row].payload, T0), TCPF_NEW);
	}
	ROW("what it adds at its end is seen");
	start(100000, false, false, 4);
	data(1000, 1000, T0);
	data(1500, 1000, T0);
	CHECK_EQ(flow()->snd_max, 2500);
	CHECK_EQ(data(2400, 100, T0), TCPF_RETRANSMISSION);
}

/* r7, r8 */
static void who_pays(void)
{
	start(5000, false, false, 4);
	data(0, 960, T0);
	CHECK_EQ(data(0, 2960, T0), TCPF_RETRANSMISSION);
	CHECK_EQ(marker.spare, 1000);
	CHECK_EQ(marker.debt, 0);
	data(0, 1960, T0);
	CHECK_EQ(marker.spare, 0);
	CHECK_EQ(marker.debt, 1000);
	data(0, 960, T0);
	CHECK_EQ(marker.debt, 2000);
	data(0, 960, T0);
	CHECK_EQ(marker.debt, 2500);
	ROW("the next interval has less");
	data(0, 0, T0 + INTERVAL);
	CHECK_EQ(marker.pool, 2500);
	ROW("nobody, in the paper");
	start(5000, true, false, 4);
	data(0, 960, T0);
	CHECK_EQ(data(0, 960, T0), TCPF_RETRANSMISSION);
	CHECK_EQ(marker.spare, 4000);
	CHECK_EQ(marker.debt, 0);
}

/* r9: the first sample, then a gain of 1/8, never of a difference of 2^31 or more */
static void window(void)
{
	const u64 one = 1ULL << TCPF_WINDOW_SHIFT;

	start(100000, false, false, 4);
	data(0, 800, T0);
	CHECK_EQ(flow()->window, 800 * one);
	data(800, 800, T0);
	CHECK_EQ(flow()->window, 900 * one);
	reverse(1600, ACK, 0, T0);
	data(1600, 100, T0);
	CHECK_EQ(flow()->window, 800 * one);
	ROW("of retransmissions too");
	data(1600, 100, T0);
	CHECK_EQ(flow()->window, 712 * one + one / 2);
	ROW("as far away as can be, and too far");
	data(1700 + 0x7fff0000U, 100, T0);
	flow()->window = 0;
	data(1600 + 0x7fffff00U, 0xff, T0);
	CHECK_EQ(flow()->window, 0x7fffffffULL << (TCPF_WINDOW_SHIFT - 3));
	data(1600 + 0x7fffffffU, 2, T0);
	data(1600 + 0x7fffffffU, 1, T0);
	CHECK_EQ(flow()->snd_max, 1600 + 0x80000001U);
	CHECK_EQ(flow()->window, 0x7fffffffULL << (TCPF_WINDOW_SHIFT - 3));
	ROW("by one byte");
	start(100000, false, false, 4);
	data(0, 800, T0);
	flow()->snd_max = 0x7fffffff;
	flow()->window = 5;
	data(0x7fffffff, 1, T0);
	CHECK_EQ(flow()->snd_max, 0x80000000);
	CHECK_EQ(flow()->window, 5);
}

/* r10: which retransmission means that the timer has expired */
static void expired_timers(void)
{
	static const struct {
		bool paper, plain;
		u32 seq;	/* una is 1000 */
		u64 after;	/* the last progress */
		bool expired;
	} table[] = {
		{ false, false, 1000, 200 * MS, true },
		{ false, false, 1000, 200 * MS - 1, false },
		{ false, false, 2000, 300 * MS, false },
		{ false, false, 500, 300 * MS, false },
		{ true, false, 1000, 300 * MS, false },
		{ false, true, 1000, 300 * MS, false },
	};
	u32 row;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("row %u", row);
		start(100000, table[row].paper, table[row].plain, 4);
		data(0, 9000, T0);
		reverse(1000, ACK, 0, T0 + 50 * MS);
		flow()->mss = 1000;
		flow()->mss_option = 1000;
		data(table[row].seq, 1000, T0 + 50 * MS + table[row].after);
		CHECK_EQ(flow()->window == 1000ULL << TCPF_WINDOW_SHIFT, table[row].expired);
	}
	ROW("time with nothing outstanding does not count");
	start(100000, false, false, 4);
	data(0, 1000, T0);
	reverse(1000, ACK, 0, T0);
	data(1000, 9000, T0 + 300 * MS);
	data(1000, 1000, T0 + 350 * MS);
	CHECK(flow()->window > 1000ULL << TCPF_WINDOW_SHIFT);
}

/* r11 */
static void segment_sizes(void)
{
	static const struct {
		u16 option;
		bool timestamps;
		u32 payload[2];
		u16 mss[2];
	} table[] = {
		{ 0, false, { 1, 100 }, { 536, 536 } },
		{ 0, true, { 536, 537 }, { 536, 537 } },
		{ 0, false, { 1460, 10 }, { 1460, 1460 } },
		{ 0, false, { 65535, 70000 }, { 65535, 65535 } },
		{ 1460, false, { 5000, 10 }, { 1460, 1460 } },
		{ 1460, true, { 5000, 10 }, { 1448, 1448 } },
		{ 1, true, { 100, 10 }, { 88, 88 } },
		{ 99, true, { 100, 10 }, { 88, 88 } },
		{ 101, true, { 100, 10 }, { 89, 89 } },
	};
	u32 row, i, seq;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		start(100000, false, false, 4);
		reverse(0, SYN | ACK, table[row].option, T0);
		CHECK_EQ(marker.handshakes.count, table[row].option > 0);
		for (i = 0, seq = 5; i < 2; seq += table[row].payload[i++]) {
			struct packet_info info = packet(1, seq, table[row].payload[i], ACK);

			ROW("row %u, segment %u", row, i);
			info.timestamps = table[row].timestamps;
			mark_info(PACKET_TCP, &info, T0);
			CHECK_EQ(flow()->mss, table[row].mss[i]);
		}
	}
}

static void acknowledgements(void)
{
	static const struct {
		u32 ack;
		u8 flags;
		bool believed;
	} table[] = {
		{ 1000, ACK, false }, { 1001, ACK, true }, { 3000, ACK, true },
		{ 3001, ACK, false }, { 999, ACK, false }, { 2000, FIN, false },
		{ 1000 + 0x80000001, ACK, false },
	};
	u32 row;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		ROW("row %u", row);
		start(100000, false, false, 4);
		data(1000, 2000, T0);
		reverse(table[row].ack, table[row].flags, 0, T0 + 5);
		CHECK_EQ(flow()->una, table[row].believed ? table[row].ack : 1000);
		CHECK_EQ(flow()->progress, T0 + (table[row].believed ? 5 : 0));
	}
	ROW("of a flow that is not known");
	start(100000, false, false, 4);
	reverse(1, ACK, 0, T0);
	CHECK_EQ(marker.flows.count + marker.handshakes.count, 0);
}

/* r13: ends from both sides, and connections that begin where one has ended */
static void ends(void)
{
	struct packet_info info = packet(1, 0, 0, ACK);

	start(100000, false, false, 4);
	data(1000, 1000, T0);
	CHECK_EQ(mark(1, 2000, 0, FIN | ACK, T0), TCPF_CONTROL);
	CHECK_EQ(flow()->snd_max, 2001);
	CHECK_EQ(mark(1, 2000, 0, FIN | ACK, T0), TCPF_CONTROL);
	CHECK_EQ(flow()->snd_max, 2001);
	reverse(2001, ACK | FIN, 0, T0);
	CHECK_EQ(flow()->una, 2001);
	CHECK(tcpf_is_closed(flow()));
	tcpf_read_reverse(&params, &marker, PACKET_IP, &info, T0 + 3 * INTERVAL);
	CHECK(!known());

	ROW("RST, and the sender does not believe it");
	data(1000, 1000, T0 + 4 * INTERVAL);
	CHECK_EQ(mark(1, 2000, 0, RST, T0 + 4 * INTERVAL), TCPF_CONTROL);
	CHECK_EQ(flow()->ended, TCPF_RESET);
	data(1000, 1000, T0 + 4 * INTERVAL);
	CHECK_EQ(flow()->ended, TCPF_RESET);
	data(2000, 1000, T0 + 4 * INTERVAL);
	CHECK_EQ(flow()->ended, 0);
	reverse(0, RST, 0, T0 + 4 * INTERVAL);
	CHECK_EQ(flow()->ended, TCPF_RESET);

	ROW("a SYN, from either side");
	CHECK_EQ(mark(1, 77, 0, SYN, T0 + 4 * INTERVAL), TCPF_CONTROL);
	CHECK(!known());
	data(1000, 1000, T0 + 4 * INTERVAL);
	CHECK_EQ(mark(1, 77, 0, SYN, T0 + 4 * INTERVAL), TCPF_CONTROL);
	CHECK(!known());
	data(1000, 1000, T0 + 4 * INTERVAL);
	CHECK_EQ(mark(1, 77, 0, SYN | ACK, T0 + 4 * INTERVAL), TCPF_CONTROL);
	reverse(1, SYN | ACK, 1460, T0 + 4 * INTERVAL);
	CHECK(known());
	reverse(1, RST, 0, T0 + 4 * INTERVAL);
	reverse(1, SYN | ACK, 1460, T0 + 4 * INTERVAL);
	CHECK(!known());
	CHECK_EQ(marker.handshakes.count, 1);
	data(1000, 1000, T0 + 4 * INTERVAL);
	reverse(1, SYN, 1460, T0 + 4 * INTERVAL);
	CHECK(!known());
}

/* From the first packet to the tick: one flow with Algorithm 1 behind it. */
static void whole(void)
{
	u32 n, in;

	start(5200, false, false, 4);
	for (n = 0; n < 10; n++)
		CHECK_EQ(data(n * 1000, 1000, T0 + n), n < 5 ? TCPF_NEW : TCPF_NO_SPARE);
	/* E = 10400, W > 4000: not tiny, share 5200, S = 1 */
	for (n = 10, in = 0; n < 20; n++) {
		enum tcpf_reason reason = data(n * 1000, 1000, T0 + INTERVAL + n);

		CHECK_EQ(reason, n % 2 ? TCPF_ALLOCATED : TCPF_SPACED);
		in += reason == TCPF_ALLOCATED;
	}
	CHECK_EQ(in, 5);
	CHECK_EQ(flow()->in_count, 0);
	CHECK_EQ(data(20000, 1000, T0 + INTERVAL + 50), TCPF_NO_TOKENS);
	CHECK_EQ(marker.stats.ticks, 1);
}

int main(void)
{
	RUN(what_is_no_data);
	RUN(new_flows);
	RUN(spacing);
	RUN(exact_share);
	RUN(retransmissions);
	RUN(who_pays);
	RUN(window);
	RUN(expired_timers);
	RUN(segment_sizes);
	RUN(acknowledgements);
	RUN(ends);
	RUN(whole);
	stop();
	return check_finish();
}
