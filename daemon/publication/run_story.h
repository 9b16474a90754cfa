// RunStory: what a published run's page tells: the losses, who contributed, who was left out of
// rounds, and where the run came from.
//
// It is made from the signed headers and, for what no header says, from the figures that the
// coordinator told. The page and docs/verify.md say which is which. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/run.pb.h"
#include "daemon/publication/site_index.h"

namespace atolld {

struct ToldLoss {
  uint64_t version = 0;
  double elapsed_seconds = 0;
  std::optional<double> train;
  std::optional<double> validation;
};

// What the headers do not say.
struct CoordinatorWord {
  std::vector<ToldLoss> losses;  // ascending
  uint64_t epoch = 0;            // the coordinator's; 0 if it is not known
  double epsilon = 0;            // what was spent; 0 if it is not known
};

class RunStory {
 public:
  // `headers` is the number of headers that will be added, and `first` the version of the first.
  RunStory(uint64_t first, uint64_t headers);

  void Add(const v1::EntryHeader& header);

  // How many peers the headers name.
  size_t peers() const { return shares_.size(); }

  // Returns the text of story.json. `index` has no page and no story yet. The text has no
  // losses if the run is private (private_run.h), and at most kMostPoints losses and kMostBins
  // counts a peer, however long the run was.
  std::string Text(const v1::Genesis& genesis, const SiteIndex& index,
                   const CoordinatorWord& told) const;

  static constexpr size_t kMostPoints = 1500;
  static constexpr uint64_t kMostBins = 240;
  // The story of more peers is neither written nor read: each takes memory.
  static constexpr size_t kMostPeers = size_t{1} << 16;

 private:
  struct Share {
    uint64_t rounds = 0, tokens = 0, steps = 0, first = 0, last = 0;
    double shares = 0;
    std::vector<uint32_t> bins;
  };
  nlohmann::ordered_json Peers() const;

  const uint64_t first_;
  const uint64_t headers_;
  const uint64_t bins_;
  std::map<std::string, Share> shares_;
  uint64_t tokens_ = 0;
};

// Compares the text of a site's story.json with the one that this story would have, except for what
// only the coordinator knew. Keys that this release does not know are passed over. Fails with
// DATA_LOSS if they differ; the message names the key.
absl::Status CompareStory(absl::string_view text, const RunStory& story, const v1::Genesis& genesis,
                          const SiteIndex& index);

// Returns the page with the story in it. The page loads nothing else.
std::string PageOf(absl::string_view story);

}  // namespace atolld
