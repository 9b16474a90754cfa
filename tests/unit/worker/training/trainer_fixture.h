// TrainerFixture: small trainers on a small text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/training_data.h"
#include "worker/training/trainer.h"

namespace atolld {

// Copies the optimiser's state from `from` to `to`.
inline absl::Status GiveOptimizer(Trainer& from, Trainer* to) {
  const absl::Status fetched = from.FetchState();
  if (!fetched.ok()) return fetched;
  const InnerOptimizer::State given = from.optimizer().state(), taken = to->optimizer().state();
  *taken.steps = *given.steps;
  for (size_t i = 0; i < given.buffers.size(); ++i) {
    std::copy(given.buffers[i].begin(), given.buffers[i].end(), taken.buffers[i].begin());
  }
  return to->PushState();
}

class TrainerFixture : public ::testing::Test {
 protected:
  TrainerFixture() : corpus_(*TrainingData::FromText(SomeText(5000), 0.2)) {}

  std::unique_ptr<Trainer> Make(const v1::RunSpec& spec,
                                const std::vector<std::string>& devices = {"cpu"}) {
    auto trainer = Trainer::Make(spec, *corpus_, devices);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_TRUE((*trainer)->Initialise().ok());
    return *std::move(trainer);
  }

  // Takes a step on samples that no other step uses.
  static double Step(Trainer& trainer, uint64_t step, uint64_t batch) {
    std::vector<uint64_t> samples(batch);
    std::iota(samples.begin(), samples.end(), step * batch);
    const auto loss = trainer.Step(step, samples);
    EXPECT_TRUE(loss.ok()) << loss.status();
    return loss.value_or(0);
  }

  const std::unique_ptr<TrainingData> corpus_;
};

}  // namespace atolld
