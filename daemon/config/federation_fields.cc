#include "daemon/config/federation_fields.h"

#include <cstdint>

namespace atolld {
namespace {

constexpr uint64_t kMostParties = 1000000;

}  // namespace

std::vector<ConfigField> FederationFields(Config& c) {
  FederationConfig& f = c.federation;
  return {
      {"participation", RealNumber{&f.participation, 0, 1, Bounds::kOpenBelow},
       UnlessDefault("federation.participation_bits"),
       "share of the peers that is drawn to train in a round",
       "Lower it to imitate a federation in which a few parties are asked at a time."},
      {"drop", RealNumber{&f.drop, 0, 1, Bounds::kOpenAbove}, As("federation.drop_bits"),
       "probability that a peer's update is not sent in a round; the peer trains on with it",
       "Raise it to see what lost updates do to the loss."},
      {"weights", OneOf(&f.weights, {"tokens", "samples", "equal", "loss"}),
       UnlessDefault("federation.weights"),
       "what a peer's update counts by; 'loss': by its loss to the power of `fairness`",
       "Take 'equal' where small parties are to count as much as large ones, 'loss' where the "
       "parties with the highest loss are to count most (q-FedAvg)."},
      OnlyWith({"federation.weights", {"loss"}},
               {"fairness", RealNumber{&f.fairness, 0, 100, Bounds::kOpenBelow},
                As("federation.fairness_bits"), "q of q-FedAvg; only with weights 'loss'",
                "Raise it for losses that lie closer together."}),
      {"normalised", Flag{&f.normalised}, As("federation.normalised"),
       "whether updates are brought to the same number of inner steps first (FedNova)",
       "Switch it on where peers do different numbers of steps a round."},
      OnlyWith({"mode.kind", {"sync", "streaming", "eager", "auto"}},
               {"staleness", RealNumber{&f.staleness, 0, 100},
                UnlessDefault("federation.staleness_bits"),
                "lambda: an update that missed A entries counts 1 / (1 + lambda x A) of its "
                "weight; 'delayed' and 'async' have [mode] age_decay in its place",
                "Lower it to 0 where the slow peers have data that no other has."}),
  };
}

std::vector<ConfigField> PrivacyFields(Config& c) {
  PrivacyConfig& p = c.privacy;
  return {
      {"clip", RealNumber{&p.clip, 0, 1e9}, As("privacy.clip_bits"),
       "length to which a party's update is scaled down; 0: no differential privacy",
       "Set it near the median length of updates, which a trial run with `quantile = 0.5` finds. "
       "See "
       "privacy.md."},
      {"noise", RealNumber{&p.noise, 0, 1e6}, As("privacy.noise_bits", {"privacy.clip"}),
       "standard deviation of the noise in the sum of a full round, in lengths of `clip`",
       "Raise it for a smaller epsilon, at a higher loss."},
      {"quantile", RealNumber{&p.quantile, 0, 1, Bounds::kOpenAbove},
       As("privacy.quantile_bits", {"privacy.clip"}),
       "share of the updates that `clip` is to leave as they are; 0: `clip` is fixed",
       "Set it to 0.5 where the length of updates is not known beforehand."},
      {"place", OneOf(&p.place, {"party", "mean"}), As("privacy.place", {"privacy.clip"}),
       "where the noise is added: by each party to its own update, or by reducers to the mean",
       "'mean' is refused so far: an auditor could not tell the noise of a mean from a lie."},
      Follows("`[run] peers` times `[federation] participation`, and times the parties of a round "
              "that `[parties]` of the same file has; at least 1",
              {"parties", WholeNumber{&p.parties, 0, 1000 * kMostParties},
               As("privacy.parties", {"privacy.clip"}),
               "parties of a full round, whose noise together is `noise`",
               "Set it where peers host different numbers of parties."}),
      Follows(
          "the share of its parties that a peer asks in a round (`[parties] a_round` of "
          "`hosted`); 1 for peers that are one party",
          {"sampling", RealNumber{&p.sampling, 0, 1}, As("privacy.sampling_bits", {"privacy.clip"}),
           "largest share of a peer's parties in a round, as epsilon counts it",
           "Set it where peers that host many parties have no `[parties]` in this file. A peer "
           "that cannot keep it is refused."}),
      {"delta", RealNumber{&p.delta, 0, 1, Bounds::kOpen}, As("privacy.delta", {"privacy.clip"}),
       "delta of the reported epsilon", "Keep it well below one over the number of parties."},
      {"epsilon", RealNumber{&p.epsilon, 0, 1e6}, As("privacy.epsilon", {"privacy.clip"}),
       "the run ends before it spends more than this; 0: epsilon is only reported",
       "Set it to the budget that was promised."},
      {"masked", Flag{&p.masked}, As("privacy.masked"),
       "whether updates are masked, so that nobody sees one party's (secure aggregation)",
       "Switch it on where reducers must not see updates, and where there are 3 parties at least. "
       "It takes an update's values as 4 bytes each, whatever the codec. See privacy.md."},
      {"threshold", WholeNumber{&p.threshold, 0, 4096}, As("privacy.threshold", {"privacy.masked"}),
       "fewest contributors whose sum is unmasked; 0: more than two thirds of a round's",
       "Raise it where more of the parties may work together against one. A round to which fewer "
       "come waits for the others."},
      {"roster", WholeNumber{&p.roster, 0, 255}, Recorded::kYes,
       "fewest parties among which masks are shared; 0: more than half of a round's",
       "Masks protect against fewer than a third of these. Set it where the run will grow."},
      {"closed", Flag{&p.closed}, As("privacy.closed", {"privacy.masked"}),
       "whether only parties with keys in the `mask_keys` of every other one take part",
       "Switch it on where all parties are known beforehand. See privacy.md."},
  };
}

std::vector<ConfigField> PartiesFields(Config& c) {
  PartiesConfig& p = c.parties;
  return {
      {"hosted", WholeNumber{&p.hosted, 0, kMostParties}, Recorded::kNo,
       "parties that this peer imitates, one after the other; 0: it is one itself",
       "Set it, with private data, to try a federation of thousands on one machine."},
      {"first", WholeNumber{&p.first, 1, kMostParties}, Recorded::kNo,
       "the first of them, by the order of the names in `[data] path`",
       "Set it where several peers share one folder of parties."},
      {"a_round", WholeNumber{&p.a_round, 0, kMostParties}, Recorded::kNo,
       "how many of them train in a round, drawn anew each time; 0: all",
       "Set it to imitate a federation in which a few parties are asked at a time."},
      {"keep", Flag{&p.keep}, Recorded::kNo,
       "whether each keeps its optimiser's state on disk from round to round",
       "Switch it on where each takes part often. It takes two models' worth of disk a party."},
  };
}

std::vector<ConfigField> AvailabilityFields(Config& c) {
  AvailabilityConfig& a = c.availability;
  return {
      {"trace", Text{&a.trace, TextForm::kPath, true}, Recorded::kNo,
       "file of the times at which parties are there; empty: always",
       "Set it to imitate machines that come and go. See experiments.md."},
      {"party", Text{&a.party, TextForm::kPlain, true}, Recorded::kNo,
       "the party whose times count here; empty: by the number in the peer's id",
       "Set it to try one party of a trace."},
      {"speed", RealNumber{&a.speed, 0, 1e6, Bounds::kOpenBelow}, Recorded::kNo,
       "seconds of the trace in one real second", "Raise it to go through a day in minutes."},
      {"start", WholeNumber{&a.start, 0, uint64_t{1} << 33}, Recorded::kNo,
       "the time of its second 0, in seconds since 1970; 0: when the peer first follows it",
       "Set it to the same for all peers of an experiment, so that they share one clock."},
  };
}

}  // namespace atolld
