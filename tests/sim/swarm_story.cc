// SwarmCluster, the story of a seed: what the processes logged and what was done to them.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/sim/swarm_cluster.h"

namespace atolld {

void SwarmCluster::Note(const std::string& line) {
  if (verbose_) notes_.emplace_back(world_.now(), line);
}

bool SwarmCluster::HasNewLines() const {
  return notes_told_ < notes_.size() || lines_told_ < world_.log().size();
}

// The processes' lines and ours, in the order of time.
std::string SwarmCluster::NewLines() {
  std::string story;
  const auto tell_notes = [&](absl::Duration until) {
    for (; notes_told_ < notes_.size() && notes_[notes_told_].first <= until; ++notes_told_) {
      absl::StrAppend(&story, absl::StrFormat("%12.6f *** %s\n",
                                              absl::ToDoubleSeconds(notes_[notes_told_].first),
                                              notes_[notes_told_].second));
    }
  };
  for (; lines_told_ < world_.log().size(); ++lines_told_) {
    const SimLogLine& line = world_.log()[lines_told_];
    tell_notes(line.time);
    absl::StrAppend(&story, absl::StrFormat("%12.6f %-11s %s\n", absl::ToDoubleSeconds(line.time),
                                            line.process, line.text));
  }
  tell_notes(absl::InfiniteDuration());
  return story;
}

}  // namespace atolld
