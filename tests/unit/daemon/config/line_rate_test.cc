// Rates of lines, as configs and topologies write them.
#include "daemon/config/line_rate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config.h"

namespace atolld {
namespace {

absl::StatusOr<Config> Load(const std::string& value) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / absl::StrCat("atoll-rate-", getpid(), ".toml");
  std::ofstream(path) << "[peer]\nup_rate = " << value << "\n";
  absl::StatusOr<Config> config = LoadConfig(path.string(), ConfigUse::kAny);
  std::filesystem::remove(path);
  return config;
}

TEST(LineRate, IsReadWithItsUnitAndWrittenReadably) {
  // Broken: a planner that counts on eight times a line's rate, or an eighth.
  const struct {
    const char* written;
    uint64_t bytes_per_second;
    const char* formatted;
  } cases[] = {
      {"20Mbit", 2500000, "20Mbit"},     {"2.5 Gbit", 312500000, "2500Mbit"},
      {"1Gbit", 125000000, "1Gbit"},     {"12.345kbit", 1543, "12.344kbit"},
      {" 1.5Mbit ", 187500, "1500kbit"}, {"0.008kbit", 1, "0.008kbit"},
  };
  for (const auto& one : cases) {
    const absl::StatusOr<double> rate = ParseRate(one.written);
    ASSERT_TRUE(rate.ok()) << rate.status();
    EXPECT_NEAR(*rate, static_cast<double>(one.bytes_per_second), 0.5) << one.written;
    EXPECT_EQ(FormatLineRate(one.bytes_per_second), one.formatted);
    EXPECT_NEAR(*ParseRate(one.formatted), static_cast<double>(one.bytes_per_second), 1e-6);
    const absl::StatusOr<Config> config = Load(absl::StrCat("\"", one.written, "\""));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->peer.up_rate, one.bytes_per_second) << one.written;
    EXPECT_NE(FormatConfig(*config).find(absl::StrCat("up_rate = \"", one.formatted, "\"")),
              std::string::npos);
  }
  EXPECT_EQ(Load("\"\"")->peer.up_rate, 0u);  // not told
}

TEST(LineRate, MistakesAreRefused) {
  // Broken: bytes taken for bits, or a line of nothing that all plans avoid.
  for (const char* wrong :
       {"\"20\"", "20", "\"20MB\"", "\"0Mbit\"", "\"9999Gbit\"", "\"-1Mbit\"", "\"Mbit\""}) {
    const absl::Status status = Load(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_NE(status.message().find(absl::StrCat(
                  ":2: [peer] up_rate must be a rate like \"100Mbit\", with kbit, Mbit "
                  "or Gbit, at most \"1000Gbit\", not ",
                  wrong)),
              std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace atolld
