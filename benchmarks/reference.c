/* The round of osamd/algorithm.py for two classes, written plainly in C: Euclidean on the whole space, hinge without
 * an L2 term, exact implicit step, margin query, the teacher's step of the paper's experiments (target margin 1).
 *
 * This is the yardstick of the benchmark: what a careful C programmer gets from `gcc -O3 -march=native`. Sums are kept
 * in eight lanes, as in osamd/numerics.py; without that a compiler may not vectorise them. The compiler may fuse
 * multiplications and additions, so scores differ from the package's in the last bit; decisions and queries do not.
 */
#include <math.h>
#include <stdint.h>

#define LANES 8

static double tree(const double *lane)
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* theta . (x, 1), w . (x, 1) and ||(x, 1)||^2 in one pass; the bias is the last of `width` parameters. */
static void sums(const double *restrict theta, const double *restrict w, const double *restrict x, int64_t features,
                 double *h, double *s, double *norm)
{
    double a[LANES] = {0}, b[LANES] = {0}, c[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= features; i += LANES)
        for (int64_t j = 0; j < LANES; j++) {
            a[j] += theta[i + j] * x[i + j];
            b[j] += w[i + j] * x[i + j];
            c[j] += x[i + j] * x[i + j];
        }
    for (int64_t j = 0; i + j < features; j++) {
        a[j] += theta[i + j] * x[i + j];
        b[j] += w[i + j] * x[i + j];
        c[j] += x[i + j] * x[i + j];
    }
    a[features % LANES] += theta[features];
    b[features % LANES] += w[features];
    c[features % LANES] += 1.0;
    *h = tree(a), *s = tree(b), *norm = tree(c);
}

/* params += rate (x, 1) */
static void add(double *restrict params, double rate, const double *restrict x, int64_t features)
{
    for (int64_t i = 0; i < features; i++)
        params[i] += rate * x[i];
    params[features] += rate;
}

/* Play `rounds` rounds; `teacher` and `student` (features + 1) are changed in place. Returns the number of queries. */
int64_t play(const double *restrict x, const int64_t *restrict y, const double *restrict u, int64_t rounds,
             int64_t features, double eta, double sigma, double cap, double *restrict teacher,
             double *restrict student, int64_t *restrict decision, uint8_t *restrict asked)
{
    int64_t queries = 0;
    for (int64_t t = 0; t < rounds; t++, x += features) {
        double h, s, norm;
        sums(teacher, student, x, features, &h, &s, &norm);

        /* observe: pseudolabel, implicit step, decision, query */
        double pseudolabel = h >= 0.0 ? 1.0 : -1.0;
        double reach = eta * norm, margin = pseudolabel * s;
        double slope = margin >= 1.0 ? 0.0 : 1.0 - margin >= reach ? -1.0 : (margin - 1.0) / reach;
        double q = slope * pseudolabel;
        double adapted = s - reach * q;
        int query = u[t] < sigma / (sigma + fabs(h));
        decision[t] = adapted >= 0.0;
        asked[t] = (uint8_t)query;

        /* learn: the label where it was asked for, else the pseudolabel */
        if (query) {
            double label = y[t] == 1 ? 1.0 : -1.0;
            double shortfall = 1.0 - label * h;
            if (shortfall > 0.0)
                add(teacher, fmin(cap, shortfall / norm) * label, x, features);
            if (label != pseudolabel)
                q = label * adapted < 1.0 ? -label : 0.0;
            queries++;
        }
        if (q != 0.0)
            add(student, -eta * q, x, features);
    }
    return queries;
}
