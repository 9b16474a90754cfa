#include "daemon/config/mode_fields.h"

namespace atolld {
namespace {

constexpr uint64_t kMost = 1000000;

}  // namespace

std::vector<ConfigField> ModeFields(Config& config) {
  ModeConfig& m = config.mode;
  return {
      {"kind", OneOf(&m.kind, {"sync", "streaming", "eager", "delayed", "async", "auto"}),
       UnlessDefault("mode.kind"),
       "how training and exchanging interleave; 'sync': one after the other; 'auto': whichever the "
       "plan says when the run is made",
       "Take 'streaming' where exchanges take long, 'eager' where one takes nearly as long as a "
       "round, and 'async' where peers differ much in speed. See modes.md."},
      OnlyWith({"mode.kind", {"streaming"}},
               {"fragments", WholeNumber{&m.fragments, 1, 64}, As("mode.fragments"),
                "fragments that entries cover in turn; only with 'streaming'",
                "Raise it for a lower peak of the bandwidth."}),
      OnlyWith(
          {"mode.kind", {"streaming"}},
          {"overlap", WholeNumber{&m.overlap, 0, kMost}, As("mode.overlap_steps"),
           "inner steps (tau) after a round's end until its entry is merged; only with 'streaming'",
           "Raise it until an exchange fits into it; above 5 the loss suffers a little."}),
      OnlyWith(
          {"mode.kind", {"streaming"}},
          {"merge", RealNumber{&m.merge, 0, 1, Bounds::kOpenAbove}, As("mode.merge_bits"),
           "share of a peer's own values (alpha) in what it goes on from; only with 'streaming'",
           "Lower it to 0 to drop what a peer has learnt while an entry was on its way."}),
      OnlyWith({"mode.kind", {"delayed"}},
               {"gap_penalty", Flag{&m.gap_penalty}, As("mode.gap_penalty"),
                "whether a mean is divided by how far the state has moved since (CO2); only with "
                "'delayed'",
                "Switch it on where 'delayed' training is unstable."}),
      OnlyWith(
          {"mode.kind", {"delayed"}},
          {"momentum_clip", RealNumber{&m.momentum_clip, 0, 1e6}, As("mode.momentum_clip_bits"),
           "largest value of the outer momentum; 0: any; only with 'delayed'",
           "Set it where 'delayed' training is unstable."}),
      OnlyWith(
          {"mode.kind", {"delayed", "async"}},
          {"age_decay", RealNumber{&m.age_decay, 0, 100}, As("mode.age_decay_bits"),
           "by what power of e an update loses weight for each entry that it missed; only with "
           "'delayed' and 'async'",
           "Raise it where old updates do harm."}),
      OnlyWith({"mode.kind", {"delayed", "async"}},
               {"age_cutoff", WholeNumber{&m.age_cutoff, 0, kMost}, As("mode.age_cutoff"),
                "missed entries from which on an update counts nothing; 0: any number; only with "
                "'delayed' "
                "and 'async'",
                "Set it where some peers are slower than the others by far."}),
      OnlyWith({"mode.kind", {"auto"}},
               {"utilisation", RealNumber{&m.utilisation, 0.01, 0.999}, Recorded::kNo,
                "share of the time in which workers are to train; only with 'auto'",
                "Lower it where 'auto' takes a mode that costs too much in loss."}),
      OnlyWith(
          {"mode.kind", {"auto"}},
          {"step_time", TimeSpan{&m.step_time, absl::ZeroDuration(), absl::Hours(1)}, Recorded::kNo,
           "time that an inner step takes on a peer's machine; 0s: that of [inner]; only with "
           "'auto'",
           "Set it to what `atoll run watch` has shown of a short run on such a machine."}),
      OnlyWith(
          {"mode.kind", {"auto"}},
          {"line_rate", LineRate{&m.line_rate}, Recorded::kNo,
           "what the slowest peer's line carries each way; empty: [peer] up_rate and down_rate; "
           "only "
           "with 'auto'",
           "Set it to what that peer has paid for, or to what it has been measured to carry."}),
      OnlyWith({"mode.kind", {"auto"}},
               {"round_trip", TimeSpan{&m.round_trip, absl::ZeroDuration(), absl::Seconds(10)},
                Recorded::kNo, "round trip between two peers; only with 'auto'",
                "Raise it where peers are far from each other."}),
  };
}

}  // namespace atolld
