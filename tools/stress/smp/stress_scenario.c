// SPDX-License-Identifier: GPL-2.0
/*
 * The scenario: one instruction on a line, '#' begins a comment.
 *
 *   seconds N              how long the load lasts
 *   seed N                 of everything random
 *   setup NODE COMMAND     before the load; must succeed
 *   sink NODE ...          started before the floods
 *   flood CPU NODE ...     a process on one processor
 *   loop NAME NODE COMMAND the lines of one name are repeated in turn by a process of that name
 *   teardown NODE COMMAND  after the load; must succeed
 *
 * "{a|b|c}" in a loop stands for one of the alternatives, drawn each time.
 */
#include <stdlib.h>
#include <string.h>

#include "stress.h"

static const struct {
	const char *word;
	enum when when;
	bool named;
} instructions[] = {
	{ "setup", SETUP, false },
	{ "sink", SINK, false },
	{ "flood", FLOOD, true },
	{ "loop", LOOP, true },
	{ "teardown", TEARDOWN, false },
};

static char *next_word(char **rest)
{
	char *word = strsep(rest, " ");

	return word ? word : "";
}

static void add_step(struct scenario *s, const char *word, char *rest)
{
	struct step *step = &s->steps[s->n_steps];

	for (size_t i = 0; i < sizeof(instructions) / sizeof(*instructions); i++) {
		if (strcmp(word, instructions[i].word))
			continue;
		if (s->n_steps++ == MAX_STEPS)
			die("scenario: more than %d steps", MAX_STEPS);
		step->when = instructions[i].when;
		if (instructions[i].named)
			snprintf(step->name, sizeof(step->name), "%s", next_word(&rest));
		snprintf(step->text, sizeof(step->text), "%s", rest ? rest : "");
		return;
	}
	die("scenario: unknown instruction '%s'", word);
}

void read_scenario(const char *path, struct scenario *s)
{
	char line[MAX_LINE];
	FILE *file = fopen(path, "r");

	if (!file)
		die("%s: %m", path);
	while (fgets(line, sizeof(line), file)) {
		char *rest = line, *word;

		line[strcspn(line, "\n")] = '\0';
		if (!line[0] || line[0] == '#')
			continue;
		word = next_word(&rest);
		if (!strcmp(word, "seconds"))
			s->seconds = strtoul(next_word(&rest), NULL, 10);
		else if (!strcmp(word, "seed"))
			s->seed = strtoull(next_word(&rest), NULL, 10);
		else
			add_step(s, word, rest);
	}
	fclose(file);
}

/* Copy one of the alternatives between `text` and its end. */
static size_t choose(const char *text, const char *end, uint64_t *random, char *out, size_t room)
{
	unsigned int choices = 1, chosen;
	size_t length;

	for (const char *c = text; c < end; c++)
		choices += *c == '|';
	for (chosen = draw(random) % choices; chosen; chosen--)
		text = strchr(text, '|') + 1;
	length = strcspn(text, "|}");
	if (length >= room)
		die("scenario: a line is longer than %d", MAX_LINE);
	memcpy(out, text, length);
	return length;
}

void resolve(const char *text, uint64_t *random, char *out, size_t size)
{
	size_t n = 0;

	while (*text && n + 1 < size) {
		const char *end = *text == '{' ? strchr(text, '}') : NULL;

		if (!end) {
			out[n++] = *text++;
			continue;
		}
		n += choose(text + 1, end, random, out + n, size - n);
		text = end + 1;
	}
	out[n] = '\0';
}

/* Split at blanks; the last word is followed by NULL. */
int split(char *text, char **words)
{
	int n = 0;

	for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
		if (n == MAX_WORDS - 1)
			die("scenario: more than %d words in a command", MAX_WORDS - 1);
		words[n++] = word;
	}
	words[n] = NULL;
	return n;
}
