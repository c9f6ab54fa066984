// SPDX-License-Identifier: GPL-2.0
/*
 * tcpf-probe - datagrams at exact instants, and requests with their responses:
 * what an application feels beside other traffic.
 *
 *   tcpf-probe udp-send --connect ADDR --every S --size BYTES --from S --until S
 *   tcpf-probe udp-recv --listen ADDR --until S --records FILE
 *   tcpf-probe ask --connect ADDR --flows N --request BYTES --response BYTES ...
 *   tcpf-probe answer --listen ADDR --until S
 *
 * A datagram costs its sender three system calls and its receiver, which takes
 * 64 at a time with the kernel's own timestamps, next to none.  An exchange
 * costs either end five over a new connection, and two or three over the same.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FLOWS	4096
#define LARGEST		((int64_t)1 << 40)

const char program_name[] = "tcpf-probe";

struct config cfg = { .port = 5002, .until = -1, .think = -1 };

/* A way to call the program, and the options that it must and may have. */
struct mode {
	const char *name;
	void (*run)(void);
	const char *needs;
	const char *takes;
};

static const struct mode modes[] = {
	{ "udp-send", send_datagrams, "cuvz", "peFT" },
	{ "udp-recv", receive_datagrams, "lur", "pe" },
	{ "ask", ask, "cunqat", "peFrfsR" },
	{ "answer", answer, "lu", "pe" },
};

static const struct option options[] = {
	{ "connect", required_argument, NULL, 'c' },
	{ "listen", required_argument, NULL, 'l' },
	{ "port", required_argument, NULL, 'p' },
	{ "epoch", required_argument, NULL, 'e' },
	{ "from", required_argument, NULL, 'F' },
	{ "until", required_argument, NULL, 'u' },
	{ "records", required_argument, NULL, 'r' },
	{ "every", required_argument, NULL, 'v' },
	{ "size", required_argument, NULL, 'z' },
	{ "tos", required_argument, NULL, 'T' },
	{ "first", required_argument, NULL, 'f' },
	{ "flows", required_argument, NULL, 'n' },
	{ "seed", required_argument, NULL, 's' },
	{ "request", required_argument, NULL, 'q' },
	{ "response", required_argument, NULL, 'a' },
	{ "think", required_argument, NULL, 't' },
	{ "reuse", no_argument, NULL, 'R' },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *to)
{
	fprintf(to,
"usage: tcpf-probe udp-send --connect ADDR --every S --size BYTES --until S\n"
"                           [--from S] [--tos N]\n"
"       tcpf-probe udp-recv --listen ADDR --until S --records FILE\n"
"       tcpf-probe ask --connect ADDR --flows N --request BYTES --response BYTES\n"
"                      --think S --until S [--from S] [--first K] [--seed N]\n"
"                      [--records FILE] [--reuse]\n"
"       tcpf-probe answer --listen ADDR --until S\n"
"\n"
"  ADDR             IPv4 or IPv6\n"
"  --port P         port of udp-recv or answer (default 5002)\n"
"  --epoch S        CLOCK_REALTIME second that all other times count from\n"
"                   (default: now)\n"
"  --from S         first instant (default 0)\n"
"  --until S        when the program ends\n"
"  --every S        one datagram at --from, and one each period after it\n"
"  --size BYTES     length of the datagram with its IP header\n"
"  --tos N          of the IP header\n"
"  --flows N        closed loops: request, response, think, request ...\n"
"  --first K        number of this process's first flow (default 0)\n"
"  --seed N         of all flows' think times (default 0)\n"
"  --request BYTES  at least 16: its first 16 bytes are both lengths\n"
"  --response BYTES at least 1\n"
"  --think S        mean time before each request, exponential; 0: none\n"
"  --reuse          one connection per flow; else one per exchange, whose\n"
"                   handshake is part of the exchange\n"
"\n"
"Records are little-endian, times in ns after the epoch.\n"
"udp-recv, 24 bytes per datagram: u32 number, zero; i64 sent_ns, received_ns.\n"
"ask, 24 bytes per exchange: u32 flow, state (0 finished, 1 cut off by the end,\n"
"2 failed); i64 start_ns, end_ns.\n"
"\n"
"One JSON object per line on stdout: {\"event\": \"listening\"} of udp-recv and answer\n"
"when they are ready; at the end {\"event\": \"end\"} with sent, errors, late_ns (the\n"
"maximum) of udp-send; received, duplicates, reordered of udp-recv; finished,\n"
"cut_off, failed of ask; answered of answer.\n");
}

int headers(void)
{
	return cfg.addr.any.sa_family == AF_INET6 ? 48 : 28;
}

void print_listening(void)
{
	printf("{\"event\":\"listening\",\"port\":%d}\n", cfg.port);
	fflush(stdout);
}

static int64_t at_least(int64_t least, int64_t value, const char *what)
{
	if (value < least)
		die("%s: %lld is less than %lld", what, (long long)value, (long long)least);
	return value;
}

static void parse_option(int opt, char *arg)
{
	switch (opt) {
	case 'c': cfg.addr = parse_address(arg, "--connect"); break;
	case 'l': cfg.addr = parse_address(arg, "--listen"); break;
	case 'p': cfg.port = parse_count(arg, "--port", 65535); break;
	case 'e': cfg.epoch = parse_seconds(arg, "--epoch"); break;
	case 'F': cfg.from = parse_seconds(arg, "--from"); break;
	case 'u': cfg.until = parse_seconds(arg, "--until"); break;
	case 'r': cfg.records = arg; break;
	case 'v':
		cfg.every = parse_seconds(arg, "--every");
		if (!cfg.every)
			die("--every: '%s' is no time at all", arg);
		break;
	case 'z': cfg.size = parse_count(arg, "--size", LARGEST_PACKET); break;
	case 'T': cfg.tos = parse_count(arg, "--tos", 255); break;
	case 'f': cfg.first = parse_count(arg, "--first", 65535); break;
	case 'n':
		cfg.flows = (int)at_least(1, parse_count(arg, "--flows", MAX_FLOWS), "--flows");
		break;
	case 's': cfg.seed = parse_number(arg, "--seed", INT64_MAX); break;
	case 'q':
		cfg.request = at_least(SMALLEST_REQUEST,
				       parse_number(arg, "--request", LARGEST), "--request");
		break;
	case 'a':
		cfg.response = at_least(1, parse_number(arg, "--response", LARGEST),
					"--response");
		break;
	case 't': cfg.think = parse_seconds(arg, "--think"); break;
	case 'R': cfg.reuse = true; break;
	default: usage(stderr); exit(2);
	}
}

static const char *name_of(char letter)
{
	const struct option *o = options;

	while (o->val != letter)
		o++;
	return o->name;
}

static const struct mode *parse_command_line(int argc, char **argv)
{
	const struct mode *mode = modes;
	char seen[sizeof(options) / sizeof(*options)] = "";
	int opt;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))) {
		usage(stdout);
		exit(0);
	}
	while (mode < modes + sizeof(modes) / sizeof(*modes) &&
	       (argc < 2 || strcmp(argv[1], mode->name)))
		mode++;
	if (mode == modes + sizeof(modes) / sizeof(*modes)) {
		usage(stderr);
		exit(2);
	}
	while ((opt = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1) {
		parse_option(opt, optarg);
		if (!strchr(mode->needs, opt) && !strchr(mode->takes, opt))
			die("--%s is not an option of %s", name_of((char)opt), mode->name);
		if (!strchr(seen, opt))
			seen[strlen(seen)] = (char)opt;
	}
	if (optind < argc - 1)
		die("'%s' is not an option", argv[optind + 1]);
	for (const char *c = mode->needs; *c; c++)
		if (!strchr(seen, *c))
			die("--%s is missing", name_of(*c));
	if (strchr(seen, 'z') && cfg.size < headers() + SMALLEST_REQUEST)
		die("--size: %d bytes leave no room for number and time; at least %d",
		    cfg.size, headers() + SMALLEST_REQUEST);
	set_port(&cfg.addr, cfg.port);
	return mode;
}

int main(int argc, char **argv)
{
	const struct mode *mode;

	cfg.epoch = now();
	mode = parse_command_line(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER);
	sleep_exactly();	/* and the threads that it starts */
	mode->run();
	fflush(stdout);
	/* The threads are in the kernel; leaving the process ends them. */
	_exit(0);
}
