// Who gets which sample. Every sample goes to one party, or to the share that all evaluate on, or
// is named as left over.
//
//   iid              shuffled and cut into parts whose sizes differ by one at most
//   linear, square   the same with sizes in proportion to i, i^2 (i = 1 ... parties),
//   exponential      e^i, as flwr-datasets' Linear-, Square- and ExponentialPartitioner,
//   log_normal       and exp(sigma z), z standard normal (FedLab)
//   dirichlet        of each label's samples the parties get shares p ~ Dir(alpha): Yurochkin et
//                    al., "Bayesian nonparametric federated learning of neural networks" (2019);
//                    Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution"
//                    (2019). Drawn anew while a party has fewer than min_samples, so that what
//                    comes out is Dir(alpha) under that condition. With `balance` a party that has
//                    its mean share gets none of the labels after that
//   inner_dirichlet  sizes are given; each party has a mix q ~ Dir(alpha) of labels, and one sample
//                    at a time goes to a party by chance that is not full, of a label by its q;
//                    labels that are used up leave the mix: Acar et al., "Federated learning based
//                    on dynamic regularization" (2021)
//   shards           sorted by label and cut into equal shards, `shards` of them a party: McMahan
//   et
//                    al., "Communication-efficient learning of deep networks from decentralized
//                    data" (2017); Zhao et al., "Federated learning with non-IID data" (2018). What
//                    does not fill a shard is left over
//   pathological     `classes` labels a party: party i has label i mod L and others by chance, and
//                    a label's samples are cut into equal parts for those who have it: Li et al.,
//                    "Federated learning on non-IID data silos" (2021). Labels that nobody has are
//                    left over
//   key              one party a label; with `parties`, the labels with most samples
//   grouped_key      labels are shuffled and dealt to the parties, to each as many, or one more
//   continuous       sorted by sigma z + (1 - sigma) e, z the standardised number and e standard
//                    normal noise, and cut into equal parts: flwr-datasets' ContinuousPartitioner
//
// The share for all is drawn first, and of a whole number of samples. Shares become numbers by
// cumulative sums, each rounded down. A party's samples keep the order of the data. Pure; the same
// settings and samples have the same result on every machine (keyed_draws.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/experiment/partition/partition_settings.h"
#include "daemon/experiment/partition/samples.h"

namespace atolld {

struct Assignment {
  std::vector<std::vector<uint32_t>> parties;  // indices of samples, ascending
  std::vector<std::string> names;              // of parties by key: the key; else empty
  std::vector<uint32_t> validation;
  std::vector<LeftOver> left_over;
  uint64_t draws = 1;  // of dirichlet: how often it was drawn
};

// INVALID_ARGUMENT: these samples cannot be dealt so; it says what would help.
absl::StatusOr<Assignment> AssignSamples(const PartitionSettings& settings, const SampleSet& set);

}  // namespace atolld
