// SPDX-License-Identifier: GPL-2.0
/* Table tests of include/net/frio_flows.h. */
#include "check.h"

#include <stdlib.h>

#include <net/frio_flows.h>

static const struct frio_params coupled = { .limit = 1000000, .mode = FRIO_COUPLED };

/* A buffer of flows that are known by a number. */
struct buffer {
	struct frio_params params;
	struct frio_vars vars;
	struct frio_flows flows;
};

static void set_up(struct buffer *b, u32 capacity)
{
	b->params = coupled;
	frio_init(&b->vars, 0);
	frio_flows_init(&b->flows, calloc(1, frio_flows_bytes(capacity)), capacity, 99);
}

static struct flow_key key_of(u32 number)
{
	struct flow_key key;

	flow_key_none(&key);
	key.version = 4;
	key.ipv4.source = number;
	return key;
}

/* Queue a packet of 100 bytes; return the record that it remembers. */
static u32 queue(struct buffer *b, u32 number, enum frio_class class)
{
	struct flow_key key = key_of(number);
	u32 record = frio_flows_get(&b->flows, &key);

	frio_enqueue(&b->params, &b->vars, frio_flow(&b->flows, record), class, 100);
	return record;
}

/* A packet that is dropped as it arrives; return the record that its flow had then. */
static u32 drop(struct buffer *b, u32 number)
{
	struct flow_key key = key_of(number);
	u32 record = frio_flows_get(&b->flows, &key);

	frio_flows_release(&b->flows, record);
	return record;
}

static void leave(struct buffer *b, u32 record, enum frio_class class)
{
	frio_dequeue(&b->params, &b->vars, frio_flow(&b->flows, record), class, 100, 0);
	frio_flows_release(&b->flows, record);
}

static void a_record_is_one_cache_line(void)
{
	CHECK_EQ(sizeof(struct frio_record), 64);
	CHECK_EQ(frio_flows_bytes(65535), 65536 * 68);
}

static void a_record_lives_from_the_first_packet_to_the_last(void)
{
	static const struct frio_flow nothing;
	struct buffer b;
	u32 record;

	set_up(&b, 4);
	record = queue(&b, 1, FRIO_OUT);
	CHECK(record >= 1 && record <= 4);
	CHECK_EQ(queue(&b, 1, FRIO_IN), record);
	CHECK_EQ(drop(&b, 1), record);
	CHECK_EQ(frio_flow(&b.flows, record)->view[FRIO_OUT].qlen, 200);
	CHECK_EQ(frio_flows_count(&b.flows), 1);
	frio_flow(&b.flows, record)->view[FRIO_OUT].strikes = 2;

	leave(&b, record, FRIO_OUT);
	CHECK_EQ(frio_flows_count(&b.flows), 1);
	CHECK_EQ(frio_flow(&b.flows, record)->view[FRIO_OUT].strikes, 2);
	leave(&b, record, FRIO_IN);
	CHECK_EQ(frio_flows_count(&b.flows), 0);
	CHECK(!memcmp(frio_flow(&b.flows, record), &nothing, sizeof(nothing)));
	CHECK_EQ(drop(&b, 2), record);
	CHECK_EQ(frio_flows_count(&b.flows), 0);
	CHECK_EQ(b.flows.overflowed, 0);
	free(b.flows.table.records);
}

static void the_short_form_of_a_key_finds_the_same_record(void)
{
	struct buffer b;

	set_up(&b, 3);
	for (u32 i = 0; i < 5; i++) {
		struct flow_key key = key_of(i);
		struct flow_ipv4 flow = { key.word[0], key.word[1], key.pair[1] };
		u32 record = i % 2 ? frio_flows_get(&b.flows, &key) :
				     frio_flows_get_ipv4(&b.flows, &flow);

		ROW("flow %u", i);
		CHECK_EQ(record == FRIO_OVERFLOW, i >= 3);
		CHECK_EQ(b.flows.overflowed, i >= 3 ? 2 * (i - 3) + 1 : 0);
		CHECK_EQ(frio_flows_get(&b.flows, &key), record);
		if (i < 3)
			CHECK_EQ(frio_flows_get_ipv4(&b.flows, &flow), record);
	}
	CHECK_EQ(frio_flows_count(&b.flows), 3);
	free(b.flows.table.records);
}

static void flows_beyond_the_bound_are_one(void)
{
	struct buffer b;
	u32 one, two;

	set_up(&b, 2);
	one = queue(&b, 1, FRIO_OUT);
	two = queue(&b, 2, FRIO_OUT);
	CHECK_EQ(queue(&b, 3, FRIO_OUT), FRIO_OVERFLOW);
	CHECK_EQ(queue(&b, 4, FRIO_OUT), FRIO_OVERFLOW);
	CHECK_EQ(queue(&b, 1, FRIO_OUT), one);
	CHECK_EQ(drop(&b, 5), FRIO_OVERFLOW);
	CHECK_EQ(b.flows.overflowed, 3);
	CHECK_EQ(frio_flow(&b.flows, FRIO_OVERFLOW)->view[FRIO_OUT].qlen, 200);
	CHECK_EQ(b.vars.view[FRIO_OUT].flows, 3);

	/* room: a record for the next flow, also if it has packets beyond the bound */
	leave(&b, two, FRIO_OUT);
	CHECK_EQ(queue(&b, 3, FRIO_OUT), two);
	CHECK_EQ(b.vars.view[FRIO_OUT].flows, 3);
	leave(&b, FRIO_OVERFLOW, FRIO_OUT);
	leave(&b, FRIO_OVERFLOW, FRIO_OUT);
	CHECK(frio_flow_empty(frio_flow(&b.flows, FRIO_OVERFLOW)));
	CHECK_EQ(b.vars.view[FRIO_OUT].flows, 2);
	CHECK_EQ(drop(&b, 3), two);
	free(b.flows.table.records);
}

static void a_smaller_bound_leaves_records_to_those_that_have_them(void)
{
	struct buffer b;
	u32 record[3];

	set_up(&b, 3);
	for (u32 i = 0; i < 3; i++)
		record[i] = queue(&b, i, FRIO_OUT);
	frio_flows_set_bound(&b.flows, 2);
	CHECK_EQ(drop(&b, 2), record[2]);
	CHECK_EQ(drop(&b, 5), FRIO_OVERFLOW);
	leave(&b, record[0], FRIO_OUT);
	CHECK_EQ(drop(&b, 5), FRIO_OVERFLOW);
	leave(&b, record[1], FRIO_OUT);
	CHECK_EQ(drop(&b, 5), record[1]);
	frio_flows_set_bound(&b.flows, 3);
	CHECK_EQ(b.flows.bound, 4);
	frio_flows_set_bound(&b.flows, 4);	/* there is no memory for it */
	CHECK_EQ(b.flows.bound, 4);
	CHECK_EQ(frio_flows_capacity(&b.flows), 3);
	free(b.flows.table.records);
}

static void more_memory_makes_room_and_keeps_the_rest(void)
{
	struct buffer b;
	u32 one;

	set_up(&b, 1);
	one = queue(&b, 1, FRIO_OUT);
	CHECK_EQ(queue(&b, 2, FRIO_OUT), FRIO_OVERFLOW);
	free(frio_flows_move(&b.flows, calloc(1, frio_flows_bytes(3)), 3));
	CHECK_EQ(drop(&b, 3), FRIO_OVERFLOW);
	frio_flows_set_bound(&b.flows, 3);
	CHECK_EQ(drop(&b, 1), one);
	CHECK_EQ(frio_flow(&b.flows, one)->view[FRIO_OUT].qlen, 100);
	CHECK(queue(&b, 2, FRIO_OUT) != FRIO_OVERFLOW);
	CHECK_EQ(frio_flow(&b.flows, FRIO_OVERFLOW)->view[FRIO_OUT].qlen, 100);
	CHECK_EQ(b.vars.view[FRIO_OUT].flows, 3);
	leave(&b, FRIO_OVERFLOW, FRIO_OUT);
	CHECK_EQ(b.vars.view[FRIO_OUT].flows, 2);
	free(b.flows.table.records);
}

static void what_is_cleared_is_empty(void)
{
	struct buffer b;

	set_up(&b, 1);
	queue(&b, 1, FRIO_OUT);
	queue(&b, 2, FRIO_OUT);
	frio_init(&b.vars, 0);
	frio_flows_clear(&b.flows);
	CHECK_EQ(frio_flows_count(&b.flows), 0);
	CHECK(frio_flow_empty(frio_flow(&b.flows, FRIO_OVERFLOW)));
	CHECK(queue(&b, 1, FRIO_OUT) != FRIO_OVERFLOW);
	CHECK_EQ(frio_flow(&b.flows, queue(&b, 1, FRIO_OUT))->view[FRIO_OUT].qlen, 200);
	CHECK_EQ(queue(&b, 2, FRIO_OUT), FRIO_OVERFLOW);
	free(b.flows.table.records);
}

/* Flow 1 has IN and OUT queued, 2 has left, 3 has IN, and 4 and 5 found no record. */
static void the_mode_changes_for_every_flow(void)
{
	struct buffer b;
	u32 one, two, three;

	set_up(&b, 3);
	one = queue(&b, 1, FRIO_IN);
	queue(&b, 1, FRIO_OUT);
	two = queue(&b, 2, FRIO_IN);
	three = queue(&b, 3, FRIO_IN);
	CHECK_EQ(queue(&b, 4, FRIO_IN), FRIO_OVERFLOW);
	CHECK_EQ(queue(&b, 5, FRIO_OUT), FRIO_OVERFLOW);
	leave(&b, two, FRIO_IN);
	CHECK_EQ(b.vars.view[FRIO_OUT].flows, 3);

	frio_flows_change_mode(&b.flows, &b.params, &b.vars, FRIO_DECOUPLED, 0);
	CHECK_EQ(b.vars.view[FRIO_OUT].flows, 2);
	CHECK_EQ(b.vars.view[FRIO_OUT].backlog, 200);
	CHECK_EQ(frio_flow(&b.flows, one)->view[FRIO_OUT].qlen, 100);
	CHECK_EQ(frio_flow(&b.flows, three)->view[FRIO_OUT].qlen, 0);
	CHECK_EQ(frio_flow(&b.flows, FRIO_OVERFLOW)->view[FRIO_OUT].qlen, 100);
	frio_flows_change_mode(&b.flows, &b.params, &b.vars, FRIO_COUPLED, 0);
	CHECK_EQ(b.vars.view[FRIO_OUT].flows, 3);
	CHECK_EQ(b.vars.view[FRIO_OUT].backlog, 500);
	CHECK_EQ(frio_flow(&b.flows, one)->view[FRIO_OUT].qlen, 200);
	CHECK_EQ(frio_flow(&b.flows, three)->view[FRIO_OUT].qlen, 100);
	CHECK_EQ(frio_flow(&b.flows, FRIO_OVERFLOW)->view[FRIO_OUT].qlen, 200);
	free(b.flows.table.records);
}

int main(void)
{
	RUN(a_record_is_one_cache_line);
	RUN(a_record_lives_from_the_first_packet_to_the_last);
	RUN(the_short_form_of_a_key_finds_the_same_record);
	RUN(flows_beyond_the_bound_are_one);
	RUN(a_smaller_bound_leaves_records_to_those_that_have_them);
	RUN(more_memory_makes_room_and_keeps_the_rest);
	RUN(what_is_cleared_is_empty);
	RUN(the_mode_changes_for_every_flow);
	return check_finish();
}
