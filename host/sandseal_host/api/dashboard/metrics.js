// Reads what Prometheus' text format says about requests: pure functions, no page.

const LINE = /^(\w+)\{([^}]*)\} (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** The samples of one metric family as `{labels, value}`. */
export function samples(text, family) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = LINE.exec(line);
    if (match && match[1] === family) {
      const labels = Object.fromEntries([...match[2].matchAll(LABEL)].map(([, name, value]) => [name, value]));
      found.push({ labels, value: Number(match[3]) });
    }
  }
  return found;
}

/** By `name/version`: how many requests were answered, how many of them badly, and how long they took. */
export function requests(text) {
  const models = new Map();
  const of = ({ model, version }) => {
    const key = `${model}/${version}`;
    if (!models.has(key)) models.set(key, { answered: 0, failed: 0, buckets: [] });
    return models.get(key);
  };
  for (const { labels, value } of samples(text, "sandseal_requests_total")) {
    of(labels).answered += value;
    if (Number(labels.code) >= 400) of(labels).failed += value;
  }
  for (const { labels, value } of samples(text, "sandseal_request_seconds_bucket")) {
    of(labels).buckets.push({ below: Number(labels.le.replace("+Inf", "Infinity")), count: value });
  }
  return models;
}

/** By tenant and class: of how many requests so many were answered within their class's target. */
export function levels(text) {
  const met = samples(text, "sandseal_slo_met_total");
  return samples(text, "sandseal_slo_requests_total").map(({ labels, value }) => {
    const within = met.find((other) => other.labels.tenant === labels.tenant && other.labels.class === labels.class);
    return { tenant: labels.tenant, class: labels.class, requests: value, met: within.value };
  });
}

/** What was counted between two looks. */
export function since(before, now) {
  if (!before) return now;
  return {
    answered: now.answered - before.answered,
    failed: now.failed - before.failed,
    buckets: now.buckets.map(({ below, count }, i) => ({ below, count: count - (before.buckets[i]?.count ?? 0) })),
  };
}

/** The bound in seconds below which a share of the requests stayed; null without requests. */
export function quantile(buckets, share) {
  const total = buckets.at(-1)?.count ?? 0;
  return total ? buckets.find(({ count }) => count >= share * total).below : null;
}
