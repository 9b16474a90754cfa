// Values with units, as configs and topologies write them.
#include "daemon/config/config_value.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/config_text.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

// Of a file with this key in [peer].
absl::StatusOr<Config> LoadKey(const char* key, const std::string& value) {
  return ConfigFile().Load(absl::StrCat("[peer]\n", key, " = ", value, "\n"));
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
    const absl::StatusOr<Config> config = LoadKey("up_rate", absl::StrCat("\"", one.written, "\""));
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->peer.up_rate, one.bytes_per_second) << one.written;
    EXPECT_NE(FormatConfig(*config).find(absl::StrCat("up_rate = \"", one.formatted, "\"")),
              std::string::npos);
  }
  EXPECT_EQ(LoadKey("up_rate", "\"\"")->peer.up_rate, 0u);  // not told
}

TEST(LineRate, MistakesAreRefused) {
  // Broken: bytes taken for bits, or a line of nothing that all plans avoid.
  for (const char* wrong :
       {"\"20\"", "20", "\"20MB\"", "\"0Mbit\"", "\"9999Gbit\"", "\"-1Mbit\"", "\"Mbit\""}) {
    const absl::Status status = LoadKey("up_rate", wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_NE(status.message().find(absl::StrCat(
                  ":2: [peer] up_rate must be a rate like \"100Mbit\", with kbit, Mbit "
                  "or Gbit, at most \"1000Gbit\", not ",
                  wrong)),
              std::string::npos)
        << status;
  }
}

TEST(ByteCounts, AreReadWithTheirUnitsAndWrittenReadably) {
  // Broken: a limit of disk or network would be another one than the file says.
  const struct {
    const char* written;
    uint64_t bytes;
    const char* formatted;
  } cases[] = {
      {"0", 0, "keep_bytes = 0 "},
      {"\"0B\"", 0, "keep_bytes = 0 "},
      {"1023", 1023, "keep_bytes = 1023 "},
      {"\"999B\"", 999, "keep_bytes = 999 "},
      {"67108864", uint64_t{64} << 20, "keep_bytes = \"64MiB\" "},
      {"\"20GB\"", 20000000000, "keep_bytes = \"20GB\" "},
      {"\"20 GB\"", 20000000000, "keep_bytes = \"20GB\" "},
      {"\"1.5GiB\"", uint64_t{3} << 29, "keep_bytes = \"1536MiB\" "},
      {"\"0.25kB\"", 250, "keep_bytes = 250 "},
      {"\"2TB\"", 2000000000000, "keep_bytes = \"2TB\" "},
      {"9223372036854775807", uint64_t{9223372036854775807u}, "keep_bytes = 9223372036854775807 "},
  };
  for (const auto& one : cases) {
    const absl::StatusOr<Config> read = LoadKey("keep_bytes", one.written);
    ASSERT_TRUE(read.ok()) << one.written << ": " << read.status();
    EXPECT_EQ(read->peer.keep_bytes, one.bytes) << one.written;
    const std::string text = FormatConfig(*read);
    EXPECT_NE(text.find(one.formatted), std::string::npos) << text;
    EXPECT_EQ(ConfigFile().Load(text)->peer.keep_bytes, one.bytes);
  }
  for (const char* wrong : {"-1", "1.5", "true", "\"\"", "\"20\"", "\"GB\"", "\"20 gb\"",
                            "\"-1GB\"", "\"1.GB\"", "\".5GB\"", "\"0.5B\"", "\"1.0000001TB\"",
                            "\"1e3B\"", "\"8388608TiB\"", "\"99999999999999999999B\"", "[1]"}) {
    const absl::Status status = LoadKey("keep_bytes", wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_NE(status.message().find("x.toml:2: [peer] keep_bytes must be a number of bytes"),
              absl::string_view::npos)
        << status;
  }
}

}  // namespace
}  // namespace atolld
