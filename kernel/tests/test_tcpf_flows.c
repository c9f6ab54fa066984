// SPDX-License-Identifier: GPL-2.0
/* The marker's records: made, found, given up, moved. */
#include "tcpf_case.h"

static void switches(void)
{
	static const struct {
		bool paper, plain;
		bool carry, charge, rto_window, tiny_max, protect;
	} table[] = {
		{ false, false, true, true, true, true, true },
		{ true, false, false, false, false, false, true },
		{ false, true, true, true, false, true, false },
		{ true, true, false, false, false, false, false },
	};
	u32 row;

	for (row = 0; row < 4; row++) {
		ROW("row %u", row);
		tcpf_set_params(&params, 7, 8, table[row].paper, table[row].plain);
		CHECK_EQ(params.interval, 7);
		CHECK_EQ(params.tokens, 8);
		CHECK_EQ(params.carry, table[row].carry);
		CHECK_EQ(params.charge, table[row].charge);
		CHECK_EQ(params.rto_window, table[row].rto_window);
		CHECK_EQ(params.tiny_max, table[row].tiny_max);
		CHECK_EQ(params.protect, table[row].protect);
	}
}

static void handshakes_remembered(void)
{
	CHECK_EQ(tcpf_handshakes(1), 16);
	CHECK_EQ(tcpf_handshakes(16 * 16), 16);
	CHECK_EQ(tcpf_handshakes(16 * 17), 17);
	CHECK_EQ(tcpf_handshakes(65536), 4096);
	CHECK_EQ(tcpf_handshakes(262144), 4096);
}

static void beginning(void)
{
	start(1000, false, false, 5);
	CHECK_EQ(marker.next_tick, T0 + INTERVAL);
	CHECK_EQ(marker.spare, 1000);
	CHECK_EQ(marker.pool, 1000);
	CHECK_EQ(marker.debt, 0);
	CHECK_EQ(marker.flows.capacity, 5);
	CHECK_EQ(marker.handshakes.capacity, 16);
	check_active(0);
	/* all of the memory is there, up to its last byte: the sanitizer looks */
	for (u32 flow = 0; flow < 5; flow++)
		tcpf_activate(&marker, make(flow, 0, T0));
	for (u16 flow = 0; flow < 16; flow++)
		note_handshake(flow, 1000);
	check_active(5);
}

static void serial_numbers(void)
{
	CHECK(tcpf_before(1, 2));
	CHECK(!tcpf_before(2, 2));
	CHECK(!tcpf_before(3, 2));
	CHECK(tcpf_before(0xffffffff, 0));
	CHECK(!tcpf_before(0, 0xffffffff));
	CHECK(tcpf_before(0, 0x7fffffff));
	CHECK(tcpf_before(0x90000000, 0x10000000 - 1));
}

static void found_or_not(void)
{
	start(1000, false, false, 5);
	CHECK_EQ(find(1, T0), FLOW_TABLE_NONE);
	make(1, 7, T0);
	CHECK_EQ(find(1, T0 + TCPF_IDLE_MAX - 1), look_up(1));
	CHECK_EQ(tcpf_flow(&marker, look_up(1))->last_seen, T0 + TCPF_IDLE_MAX - 1);
	CHECK_EQ(find(1, T0 + 2 * TCPF_IDLE_MAX - 2), look_up(1));
	CHECK_EQ(marker.stats.expired, 0);
	CHECK_EQ(find(1, T0 + 3 * TCPF_IDLE_MAX), FLOW_TABLE_NONE);
	CHECK_EQ(marker.stats.expired, 1);
	CHECK_EQ(marker.flows.count, 0);
}

static void new_record(void)
{
	struct tcpf_flow *f;

	start(1000, false, false, 2);
	note_handshake(1, 1400);
	f = tcpf_flow(&marker, make(1, 77, T0));
	CHECK_EQ(f->snd_max, 77);
	CHECK_EQ(f->una, 77);
	CHECK_EQ(f->mss_option, 1400);
	CHECK_EQ(f->place, TCPF_PASSIVE);
	CHECK_EQ(f->last_seen, T0);
	CHECK(!f->ticked && !f->sampled && !f->ended);
	CHECK_EQ(marker.handshakes.count, 0);
	CHECK_EQ(tcpf_flow(&marker, make(2, 78, T0))->mss_option, 0);

	ROW("full: the one that was silent for longest goes");
	find(1, T0 + 1);
	tcpf_activate(&marker, look_up(2));
	f = tcpf_flow(&marker, look_up(2));
	f->in_count = 99;
	make(3, 79, T0 + 2);
	CHECK_EQ(marker.stats.evicted, 1);
	CHECK_EQ(look_up(2), FLOW_TABLE_NONE);
	CHECK(look_up(1) != FLOW_TABLE_NONE && look_up(3) != FLOW_TABLE_NONE);
	CHECK_EQ(tcpf_flow(&marker, look_up(3))->in_count, 0);
	check_active(0);
}

static void handshake_table(void)
{
	start(1000, false, false, 2);
	for (u16 flow = 0; flow < 16; flow++)
		note_handshake(flow, 1000 + flow);
	note_handshake(3, 500);
	CHECK_EQ(marker.handshakes.count, 16);
	note_handshake(16, TCPF_MSS_MIN - 1);
	CHECK_EQ(marker.handshakes.count, 16);
	ROW("the oldest has gone");
	CHECK_EQ(tcpf_flow(&marker, make(0, 0, T0))->mss_option, 0);
	ROW("said again");
	CHECK_EQ(tcpf_flow(&marker, make(3, 0, T0))->mss_option, 500);
	ROW("not believed");
	CHECK_EQ(tcpf_flow(&marker, make(16, 0, T0))->mss_option, TCPF_MSS_MIN);
}

static void active_list(void)
{
	u32 flow;

	start(1000, false, false, 5);
	for (flow = 0; flow < 5; flow++)
		tcpf_activate(&marker, make(flow, 0, T0));
	tcpf_activate(&marker, look_up(2));
	check_active(5);
	tcpf_deactivate(&marker, tcpf_flow(&marker, look_up(2)));
	tcpf_deactivate(&marker, tcpf_flow(&marker, look_up(2)));
	check_active(4);
	CHECK_EQ(tcpf_flow(&marker, look_up(2))->place, TCPF_PASSIVE);
	tcpf_forget(&marker, look_up(4));
	check_active(3);
	tcpf_forget(&marker, look_up(2));
	check_active(3);
	CHECK_EQ(marker.flows.count, 3);
}

static void reaping(void)
{
	u32 flow;

	start(1000, false, false, 300);
	tcpf_reap(&marker, T0);
	for (flow = 0; flow < 300; flow++)
		make(flow, 0, T0 + flow);
	tcpf_reap(&marker, T0 + TCPF_IDLE_MAX - 1);
	CHECK_EQ(marker.flows.count, 300);
	tcpf_reap(&marker, T0 + TCPF_IDLE_MAX);
	CHECK_EQ(marker.flows.count, 299);
	CHECK_EQ(look_up(0), FLOW_TABLE_NONE);
	tcpf_reap(&marker, T0 + 2 * TCPF_IDLE_MAX);
	CHECK_EQ(marker.flows.count, 299 - TCPF_REAP_MAX);
	tcpf_reap(&marker, T0 + 2 * TCPF_IDLE_MAX);
	CHECK_EQ(marker.flows.count, 0);
	CHECK_EQ(marker.stats.expired, 300);
}

static void ends(void)
{
	static const struct {
		u8 how[3];
		u8 closed_after;	/* 3: never */
	} table[] = {
		{ { TCPF_FIN_FORWARD, TCPF_FIN_FORWARD, TCPF_FIN_FORWARD }, 3 },
		{ { TCPF_FIN_REVERSE, TCPF_FIN_REVERSE, TCPF_FIN_REVERSE }, 3 },
		{ { TCPF_FIN_FORWARD, TCPF_FIN_REVERSE, TCPF_FIN_REVERSE }, 1 },
		{ { TCPF_FIN_REVERSE, TCPF_FIN_FORWARD, TCPF_RESET }, 1 },
		{ { TCPF_RESET, TCPF_FIN_FORWARD, TCPF_FIN_REVERSE }, 0 },
	};
	u32 row, i;

	for (row = 0; row < sizeof(table) / sizeof(*table); row++) {
		u32 index;

		start(1000, false, false, 2);
		index = make(1, 0, T0);
		for (i = 0; i < 3; i++) {
			ROW("row %u, end %u", row, i);
			tcpf_end(&marker, index, table[row].how[i], T0 + i);
			CHECK_EQ(tcpf_is_closed(tcpf_flow(&marker, index)),
				 i >= table[row].closed_after);
			check_active(i >= table[row].closed_after);
		}
		if (table[row].closed_after < 3)
			CHECK_EQ(tcpf_flow(&marker, index)->closed, T0 + table[row].closed_after);
	}
}

static void resize(u32 flows)
{
	struct tcpf_room room = new_room(flows);
	void *old = marker.flows.records;

	tcpf_marker_resize(&marker, &room);
	free(old);
}

static void resized(void)
{
	u32 flow;

	start(1000, false, false, 8);
	for (flow = 0; flow < 8; flow++) {
		u32 index = make(flow, 100 + flow, T0 + flow);

		if (flow % 2)
			tcpf_activate(&marker, index);
	}
	find(0, T0 + 9);
	note_handshake(9, 1000);
	marker.spare = 123;
	resize(20);
	CHECK_EQ(marker.flows.count, 8);
	CHECK_EQ(marker.flows.capacity, 20);
	CHECK_EQ(marker.handshakes.count, 0);
	CHECK_EQ(marker.spare, 123);
	CHECK_EQ(marker.stats.evicted, 0);
	check_active(4);
	for (flow = 0; flow < 8; flow++) {
		ROW("flow %u", flow);
		CHECK_EQ(tcpf_flow(&marker, look_up(flow))->una, 100 + flow);
		CHECK_EQ(tcpf_flow(&marker, look_up(flow))->place != TCPF_PASSIVE, flow % 2);
	}
	ROW("fewer: those used last stay");
	resize(3);
	CHECK_EQ(marker.stats.evicted, 5);
	CHECK_EQ(marker.flows.count, 3);
	for (flow = 0; flow < 8; flow++)
		CHECK_EQ(look_up(flow) != FLOW_TABLE_NONE, flow == 0 || flow >= 6);
	check_active(1);
	make(10, 0, T0 + 10);
	CHECK_EQ(look_up(6), FLOW_TABLE_NONE);
}

int main(void)
{
	RUN(switches);
	RUN(handshakes_remembered);
	RUN(beginning);
	RUN(serial_numbers);
	RUN(found_or_not);
	RUN(new_record);
	RUN(handshake_table);
	RUN(active_list);
	RUN(reaping);
	RUN(ends);
	RUN(resized);
	stop();
	return check_finish();
}
