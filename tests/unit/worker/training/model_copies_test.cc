#include "worker/training/model_copies.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/model/architectures.h"
#include "worker/model/layers.h"

namespace atolld {
namespace {

class ModelCopiesTest : public ::testing::Test {
 protected:
  // `count` copies of a small model with random parameters, on the CPU.
  std::unique_ptr<ModelCopies> Make(size_t count) {
    const auto model = *MakeModel(spec_.model());
    parameters_ = at::zeros({static_cast<int64_t>(model->manifest().elements())});
    model->Initialise(parameters_, 5);
    auto copies = std::make_unique<ModelCopies>(std::vector<std::string>(count, "cpu"));
    const TrainedTensors all(model->manifest());
    EXPECT_TRUE(copies->Allocate(spec_, *model, parameters_, all, "allocating").ok());
    return copies;
  }

  const v1::RunSpec spec_ = TinySpec();
  at::Tensor parameters_;
};

// Broken: copies would compute one after the other, or share the memory of their gradients.
TEST_F(ModelCopiesTest, EachHasItsOwnTurnAtOnce) {
  const auto copies = Make(3);
  // Passed by nobody before all are there; who passes last takes it down.
  auto* const barrier = new absl::Barrier(3);
  std::vector<const void*> gradients(3);
  ASSERT_TRUE(copies
                  ->OnEach("meeting",
                           [&](size_t i, ModelCopy& copy) {
                             gradients[i] = copy.gradient().data_ptr();
                             if (barrier->Block()) delete barrier;
                           })
                  .ok());
  EXPECT_NE(gradients[0], gradients[1]);
  EXPECT_NE(gradients[0], gradients[2]);
  EXPECT_NE(gradients[1], gradients[2]);
}

// Broken: nobody would learn which of several GPUs is out of order, or the worker would end with it
// without a word.
TEST_F(ModelCopiesTest, AFailureNamesTheCopyAndTheOthersGoOn) {
  const auto copies = Make(3);
  const absl::Status failed =
      copies->OnEach("step 7", [](size_t i, ModelCopy&) { TORCH_CHECK(i == 0, "out of order"); });
  EXPECT_EQ(failed.message(), "step 7, copy 2 of 3 on cpu: out of order");
  int done = 0;
  absl::Mutex mutex;
  EXPECT_TRUE(copies
                  ->OnEach("step 8",
                           [&](size_t, ModelCopy&) {
                             const absl::MutexLock lock(&mutex);
                             ++done;
                           })
                  .ok());
  EXPECT_EQ(done, 3);
  // One alone has no number.
  EXPECT_EQ(
      Make(1)->OnEach("step 9", [](size_t, ModelCopy&) { TORCH_CHECK(false, "no"); }).message(),
      "step 9: no");
}

// Broken: copies on a CPU would each take all threads, and more of them than there are cores would
// slow each other; or the optimiser would be left with a share.
TEST_F(ModelCopiesTest, CopiesOnACpuShareItsThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(5);
  for (const size_t count : {1, 2, 3, 7}) {
    std::vector<int> threads(count);
    const auto copies = Make(count);
    ASSERT_TRUE(
        copies
            ->OnEach("counting", [&](size_t i, ModelCopy&) { threads[i] = at::get_num_threads(); })
            .ok());
    const int share = count == 1 ? 5 : count == 2 ? 2 : 1;
    EXPECT_EQ(threads, std::vector<int>(count, share));
    EXPECT_EQ(at::get_num_threads(), 5);
  }
  at::set_num_threads(before);
}

// Broken: the devices' parts would not sum to the batch's gradient, or parameters that the trainer
// has stepped would not reach all.
TEST_F(ModelCopiesTest, PartsOfAnySizeSumToTheBatch) {
  const at::Tensor rows = at::randint(0, 256, {7, 17}, at::kLong);
  const auto one = Make(1);
  const at::Tensor parameters = parameters_;
  const auto three = Make(3);
  parameters.mul_(1.5);
  parameters_.mul_(1.5);
  double whole = 0;
  std::vector<double> parts(3);
  ASSERT_TRUE(
      one->OnEach("one", [&](size_t, ModelCopy& copy) { whole = copy.Train(rows, 7, 0); }).ok());
  ASSERT_TRUE(three
                  ->OnEach("three",
                           [&](size_t i, ModelCopy& copy) {
                             const auto n = static_cast<int64_t>(i);
                             const int64_t first = 7 * n / 3, end = 7 * (n + 1) / 3;
                             parts[i] = copy.Train(rows.narrow(0, first, end - first), 7, 0);
                           })
                  .ok());
  three->SumGradients();
  EXPECT_NEAR(parts[0] + parts[1] + parts[2], whole, 1e-5);
  const at::Tensor expected = one->first().gradient(), found = three->first().gradient();
  EXPECT_LT(((found - expected).norm() / expected.norm()).item<double>(), 1e-6);
}

// Broken: one copy alone and one of several would drop other values, so that a run with dropout
// would be another one on an older libtorch.
TEST(DropTest, DrawsAsLibtorchDoes) {
  const at::Tensor x = at::rand({50, 7}).requires_grad_(true);
  at::manual_seed(9);
  const at::Tensor expected = at::dropout(x, 0.3, /*train=*/true);
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{9});
  const at::Tensor found = Drop(x, 0.3, generator);
  EXPECT_TRUE(at::equal(found, expected));
  EXPECT_TRUE(found.requires_grad());
  EXPECT_TRUE(Drop(x, 0, generator).is_same(x));
}

}  // namespace

namespace {

// Broken: a step would begin before the one before has ended, or each on a thread that must be
// warmed up again.
TEST(TaskThreadTest, DoesOneTaskAfterAnotherOnOneThread) {
  TaskThread thread;
  std::vector<int> done;
  std::set<std::thread::id> ids;
  for (int i = 0; i < 100; ++i) {
    thread.Start([&, i] {
      done.push_back(i);
      ids.insert(std::this_thread::get_id());
    });
    if (i % 3 == 0) thread.Wait();
  }
  thread.Wait();
  thread.Wait();  // nothing runs
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 0u);
}

// Broken: two devices would compute one after the other.
TEST(TaskThreadTest, ThreadsRunAtOnce) {
  TaskThread a, b;
  absl::Notification from_a, from_b;
  a.Start([&] {
    from_a.Notify();
    from_b.WaitForNotification();
  });
  b.Start([&] {
    from_b.Notify();
    from_a.WaitForNotification();
  });
  a.Wait();
  b.Wait();
}

// Broken: a worker that ends would take memory away under a step that goes on.
TEST(TaskThreadTest, ItsEndWaitsForTheTask) {
  absl::Notification begun, go_on;
  bool done = false;
  auto thread = std::make_unique<TaskThread>();
  thread->Start([&] {
    begun.Notify();
    go_on.WaitForNotification();
    done = true;
  });
  begun.WaitForNotification();
  std::thread ending([&] { thread = nullptr; });
  go_on.Notify();
  ending.join();
  EXPECT_TRUE(done);
}

}  // namespace

}  // namespace atolld
