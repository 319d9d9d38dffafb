#include "client/swarm/view.h"

#include <curses.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"

#define EVENT_LINES 6
#define PLAIN_PERIOD_S 10

struct skep_swarm_view {
    bool lines; /* no screen */
    SCREEN *screen;
    char events[EVENT_LINES][160];
    int64_t last_round; /* shown as a line */
    double last_s;
};

struct skep_swarm_view *skep_swarm_view_open(bool plain)
{
    struct skep_swarm_view *view = skep_alloc(1, sizeof *view);
    view->last_round = -1;
    view->lines = plain || !isatty(STDOUT_FILENO) || getenv("TERM") == NULL;
    if (!view->lines) {
        view->screen = newterm(NULL, stdout, stdin);
        view->lines = view->screen == NULL;
    }
    if (!view->lines) {
        set_term(view->screen);
        curs_set(0);
        noecho();
    }
    return view;
}

void skep_swarm_view_close(struct skep_swarm_view *view)
{
    if (view == NULL) {
        return;
    }
    if (view->screen != NULL) {
        endwin();
        delscreen(view->screen);
        for (size_t i = 0; i < EVENT_LINES; i++) { /* what happened last stays on the terminal */
            if (view->events[i][0] != '\0') {
                printf("%s\n", view->events[i]);
            }
        }
        fflush(stdout);
    }
    free(view);
}

void skep_swarm_view_event(struct skep_swarm_view *view, const char *format, ...)
{
    char line[160];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (view->lines) {
        printf("%s\n", line);
        fflush(stdout);
        return;
    }
    memmove(view->events[0], view->events[1], sizeof view->events - sizeof view->events[0]);
    memcpy(view->events[EVENT_LINES - 1], line, sizeof line);
}

static void format_figure(double figure, char to[16])
{
    if (figure > 0) {
        snprintf(to, 16, "%.3f", figure);
    } else {
        snprintf(to, 16, "-");
    }
}

/* What the figures are of. */
struct words {
    const char *loss;
    const char *long_loss;
    const char *measure; /* of the held-out data, if it is another */
    const char *tokens;
};

static const struct words *words_of(const struct skep_swarm_figures *figures)
{
    static const struct words lm = {"bits/byte", "bits per byte", "", "tokens"};
    static const struct words classifier = {"nats", "nats per record", " accuracy", "records"};
    return figures->classifier ? &classifier : &lm;
}

static void show_line(struct skep_swarm_view *view, const struct skep_swarm_figures *figures,
                      const struct skep_swarm_totals *totals)
{
    bool due = figures->elapsed_s - view->last_s >= PLAIN_PERIOD_S;
    if (totals->round == view->last_round && !due) {
        return;
    }
    const struct words *words = words_of(figures);
    char training[16];
    char heldout[16];
    format_figure(totals->loss, training);
    format_figure(figures->heldout, heldout);
    printf("%5.0f s  round %lld  %s %s (held-out%s %s)  %.0f %s/s  %s %lld  merged %lld  "
           "credit %.3f  keepers %zu/%zu\n",
           figures->elapsed_s, (long long)totals->round, words->loss, training, words->measure,
           heldout, totals->tokens_per_s, words->tokens, words->tokens, (long long)totals->tokens,
           (long long)totals->merged, totals->credit, totals->keepers_agree, figures->keeper_count);
    fflush(stdout);
    view->last_round = totals->round;
    view->last_s = figures->elapsed_s;
}

static void draw_head(const struct skep_swarm_figures *figures,
                      const struct skep_swarm_totals *totals)
{
    const struct words *words = words_of(figures);
    char training[16];
    char heldout[16];
    format_figure(totals->loss, training);
    format_figure(figures->heldout, heldout);
    attron(A_BOLD);
    mvprintw(0, 0, "Skep: a swarm on this machine");
    attroff(A_BOLD);
    mvprintw(1, 0, "project %.16s   %.0f s", figures->project, figures->elapsed_s);
    if (figures->left_s >= 0) {
        printw(", %.0f s left", figures->left_s);
    }
    printw("   Ctrl-C stops");
    mvprintw(3, 0, "round %-8lld %s %-8s held-out%s %-8s %s/s %-8.0f", (long long)totals->round,
             words->long_loss, training, words->measure, heldout, words->tokens,
             totals->tokens_per_s);
    mvprintw(4, 0, "updates merged %-8lld credit %-10.3f %s %-10lld keepers in agreement %zu/%zu",
             (long long)totals->merged, totals->credit, words->tokens, (long long)totals->tokens,
             totals->keepers_agree, figures->keeper_count);
}

static int draw_keepers(const struct skep_swarm_figures *figures, int line)
{
    attron(A_UNDERLINE);
    mvprintw(line++, 0, "%-10s %7s %8s %8s %6s %6s  %s", "keeper", "round", "merged", "waiting",
             "peers", "nodes", "state");
    attroff(A_UNDERLINE);
    for (size_t i = 0; i < figures->keeper_count; i++) {
        const struct skep_swarm_row *row = &figures->keepers[i];
        const struct skep_keeper_figures *keeper = &row->keeper;
        if (!row->running || !keeper->known) {
            mvprintw(line++, 0, "%-10s %s", row->name, row->running ? "starting" : "not running");
            continue;
        }
        mvprintw(line++, 0, "%-10s %7lld %8lld %8lld %6lld %6lld  %.12s", row->name,
                 (long long)keeper->trunk_version, (long long)keeper->merged,
                 (long long)keeper->waiting, (long long)keeper->peers, (long long)keeper->dht_nodes,
                 skep_id_text(keeper->state.bytes));
    }
    return line;
}

static int draw_donors(const struct skep_swarm_figures *figures, int line)
{
    const struct words *words = words_of(figures);
    attron(A_UNDERLINE);
    mvprintw(line++, 0, "%-10s %9s %7s/s %7s %9s %6s  %s", "donor", words->loss, words->tokens,
             "merged", "credit", "peers", "what it does");
    attroff(A_UNDERLINE);
    for (size_t i = 0; i < figures->donor_count; i++) {
        const struct skep_swarm_row *row = &figures->donors[i];
        const struct skep_donor_figures *donor = &row->donor;
        if (!row->running || !donor->known) {
            mvprintw(line++, 0, "%-10s %s", row->name, row->running ? "starting" : "not running");
            continue;
        }
        char loss[16];
        format_figure(donor->loss, loss);
        mvprintw(line++, 0, "%-10s %9s %9.0f %7lld %9.3f %6lld  ", row->name, loss,
                 donor->tokens_per_s, (long long)donor->updates_merged, donor->credit,
                 (long long)donor->peers);
        int left = COLS - getcurx(stdscr);
        addnstr(donor->sentence, left > 0 ? left : 0);
    }
    return line;
}

void skep_swarm_view_show(struct skep_swarm_view *view, const struct skep_swarm_figures *figures)
{
    struct skep_swarm_totals totals = skep_swarm_sum(figures);
    if (view->lines) {
        show_line(view, figures, &totals);
        return;
    }
    erase();
    draw_head(figures, &totals);
    int line = draw_keepers(figures, 6) + 1;
    line = draw_donors(figures, line) + 1;
    for (size_t i = 0; i < EVENT_LINES; i++) {
        mvaddnstr(line++, 0, view->events[i], COLS);
    }
    refresh();
}
