#include "daemon/config/mode_fields.h"

namespace atolld {
namespace {

constexpr uint64_t kMost = 1000000;

}  // namespace

std::vector<ConfigField> ModeFields(Config& config) {
  ModeConfig& m = config.mode;
  return {
      {"kind",
       Text{&m.kind,
            TextForm::kOneOf,
            false,
            {"sync", "streaming", "eager", "delayed", "async", "auto"}},
       Recorded::kYes,
       "how training and exchanging interleave; 'sync': one after the other; 'auto': whichever the "
       "plan says when the run is made",
       "Take 'streaming' where exchanges take long, 'eager' where one takes nearly as long as a "
       "round, and 'async' where peers differ much in speed. See modes.md."},
      {"fragments", WholeNumber{&m.fragments, 1, 64}, Recorded::kYes,
       "fragments that entries cover in turn; only with 'streaming'",
       "Raise it for a lower peak of the bandwidth."},
      {"overlap", WholeNumber{&m.overlap, 0, kMost}, Recorded::kYes,
       "inner steps (tau) after a round's end until its entry is merged; only with 'streaming'",
       "Raise it until an exchange fits into it; above 5 the loss suffers a little."},
      {"merge", RealNumber{&m.merge, 0, 1, Bounds::kOpenAbove}, Recorded::kYes,
       "share of a peer's own values (alpha) in what it goes on from; only with 'streaming'",
       "Lower it to 0 to drop what a peer has learnt while an entry was on its way."},
      {"gap_penalty", Flag{&m.gap_penalty}, Recorded::kYes,
       "whether a mean is divided by how far the state has moved since (CO2); only with 'delayed'",
       "Switch it on where 'delayed' training is unstable."},
      {"momentum_clip", RealNumber{&m.momentum_clip, 0, 1e6}, Recorded::kYes,
       "largest value of the outer momentum; 0: any; only with 'delayed'",
       "Set it where 'delayed' training is unstable."},
      {"age_decay", RealNumber{&m.age_decay, 0, 100}, Recorded::kYes,
       "by what power of e an update loses weight for each entry that it missed; only with "
       "'delayed' and 'async'",
       "Raise it where old updates do harm."},
      {"age_cutoff", WholeNumber{&m.age_cutoff, 0, kMost}, Recorded::kYes,
       "missed entries from which on an update counts nothing; 0: any number; only with 'delayed' "
       "and 'async'",
       "Set it where some peers are slower than the others by far."},
      {"utilisation", RealNumber{&m.utilisation, 0.01, 0.999}, Recorded::kNo,
       "share of the time in which workers are to train; only with 'auto'",
       "Lower it where 'auto' takes a mode that costs too much in loss."},
      {"step_time", TimeSpan{&m.step_time, absl::ZeroDuration(), absl::Hours(1)}, Recorded::kNo,
       "time that an inner step takes on a peer's machine; 0s: that of [inner]; only with 'auto'",
       "Set it to what `atoll run watch` has shown of a short run on such a machine."},
      {"line_rate", LineRate{&m.line_rate}, Recorded::kNo,
       "what the slowest peer's line carries each way; empty: [peer] up_rate and down_rate; only "
       "with 'auto'",
       "Set it to what that peer has paid for, or to what it has been measured to carry."},
      {"round_trip", TimeSpan{&m.round_trip, absl::ZeroDuration(), absl::Seconds(10)},
       Recorded::kNo, "round trip between two peers; only with 'auto'",
       "Raise it where peers are far from each other."},
  };
}

}  // namespace atolld
