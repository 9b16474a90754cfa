// Decides which party gets which sample. Every sample goes to one party, or to the share on which
// all parties evaluate, or is reported as left over.
//
//   iid              shuffled and cut into parts whose sizes differ by at most one
//   linear, square   like iid, with sizes in proportion to i, i^2 (i = 1 ... parties),
//   exponential      e^i, as in flwr-datasets' Linear-, Square- and ExponentialPartitioner,
//   log_normal       or exp(sigma z), with z standard normal (FedLab)
//   dirichlet        the samples of each label are divided among the parties by shares
//                    p ~ Dir(alpha): Yurochkin et al., "Bayesian nonparametric federated learning
//                    of neural networks" (2019); Hsu, Qi and Brown, "Measuring the effects of
//                    non-identical data distribution" (2019). The shares are drawn again while a
//                    party has fewer than min_samples samples, so that the result is Dir(alpha)
//                    under that condition. With `balance`, a party that has the mean number of
//                    samples gets none of the later labels
//   inner_dirichlet  sizes are fixed first, and each party draws a mix q ~ Dir(alpha) of labels.
//                    Then one sample after another goes to a random party that is not full, with
//                    a label drawn from its q; labels that are used up leave the mix: Acar et al.,
//                    "Federated learning based on dynamic regularization" (2021)
//   shards           sorted by label and cut into equal shards, `shards` of them for each party:
//                    McMahan et al., "Communication-efficient learning of deep networks from
//                    decentralized data" (2017); Zhao et al., "Federated learning with non-IID
//                    data" (2018). Samples that do not fill a shard are left over
//   pathological     `classes` labels for each party: party i has label i mod L and random others,
//                    and the samples of a label are cut into equal parts for the parties that have
//                    it: Li et al., "Federated learning on non-IID data silos" (2021). Labels that
//                    no party has are left over
//   key              a party for each label or, if `parties` is set, for the labels with the most
//                    samples
//   grouped_key      the labels are shuffled and dealt to the parties; the numbers of labels of two
//                    parties differ by at most one
//   continuous       sorted by sigma z + (1 - sigma) e and cut into equal parts, where z is the
//                    standardised number of the sample and e is standard normal noise:
//                    flwr-datasets' ContinuousPartitioner
//
// The share on which all evaluate is drawn first, as a whole number of samples. Shares become
// numbers of samples by their cumulative sums, each rounded down. A party's samples keep the order
// of the data. The same settings and samples give the same result on every machine (keyed_draws.h).
// Pure. May be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/experiment/partition/partition_settings.h"
#include "daemon/experiment/partition/samples.h"

namespace atolld {

struct Assignment {
  std::vector<std::vector<uint32_t>> parties;  // the indices of each party's samples, ascending
  // With scheme "key", the key of each party; otherwise empty.
  std::vector<std::string> names;
  std::vector<uint32_t> validation;
  std::vector<LeftOver> left_over;
  uint64_t draws = 1;  // the number of draws that dirichlet needed
};

// Fails with INVALID_ARGUMENT if the samples cannot be partitioned in this way; the message says
// what would help.
absl::StatusOr<Assignment> AssignSamples(const PartitionSettings& settings, const SampleSet& set);

}  // namespace atolld
