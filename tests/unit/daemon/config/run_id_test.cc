// The names that runs are given.
#include <gtest/gtest.h>

#include <string>

#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "daemon/config/config.h"

namespace atolld {
namespace {

TEST(RunId, MadeOnesAreValid) {
  // Broken: a file with an odd name would make a run that every peer refuses.
  const absl::Time now =
      absl::FromCivil(absl::CivilSecond(2025, 1, 31, 14, 25, 1), absl::UTCTimeZone());
  EXPECT_EQ(MakeRunId("configs/quickstart.toml", now), "quickstart-20250131-142501");
  EXPECT_EQ(MakeRunId("My  Run_2!.toml", now), "my-run-2-20250131-142501");
  EXPECT_EQ(MakeRunId("\xc3\xa9.toml", now), "run-20250131-142501");
  EXPECT_LE(MakeRunId(std::string(100, 'a') + ".toml", now).size(), 64u);
}

}  // namespace
}  // namespace atolld
