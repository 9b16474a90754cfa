#include "worker/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/token_source.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string Llmc(int32_t magic, int32_t version, int32_t tokens, const std::string& body) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return Raw(header) + body;
}

std::string Npy(const std::string& type, const std::string& shape, const std::string& body) {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(117, ' ');
  header += '\n';
  return absl::StrCat(std::string("\x93NUMPY\x01\x00", 8), std::string(1, '\x76'),
                      std::string(1, '\0'), header, body);
}

class TokenFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  std::vector<int64_t> Ids(const std::string& name, const std::string& bytes) {
    const auto file = OpenTokenFile(Write(name, bytes));
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return {};
    std::vector<int64_t> ids(file->tokens.size());
    file->tokens.Read(0, absl::MakeSpan(ids));
    return ids;
  }

  std::string Wrong(const std::string& name, const std::string& bytes, uint64_t vocabulary) {
    const std::string path = Write(name, bytes);
    const auto file = OpenTokenFile(path);
    const absl::Status status = file.ok() ? CheckIds(path, *file, vocabulary) : file.status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
    return std::string(status.message());
  }

  const TemporaryFolder folder_;
};

// Broken: data that other programs have made would be read as other tokens than they meant.
TEST_F(TokenFileTest, ReadsWhatOtherProgramsWrite) {
  const std::vector<int64_t> ids = {1, 65535, 7};
  EXPECT_EQ(Ids("nano.bin", Raw<uint16_t>({1, 65535, 7})), ids);
  EXPECT_EQ(Ids("gpt2.bin", Llmc(20240520, 1, 3, Raw<uint16_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("llama.bin", Llmc(20240801, 7, 3, Raw<uint32_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("u1.npy", Npy("|u1", "(2,)", Raw<uint8_t>({3, 255}))),
            (std::vector<int64_t>{3, 255}));
  EXPECT_EQ(Ids("u2.npy", Npy("<u2", "(3,)", Raw<uint16_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("u4.npy", Npy("<u4", "(3,)", Raw<uint32_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("i4.npy", Npy("<i4", "(3,)", Raw<int32_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("i8.npy", Npy("<i8", "(3,)", Raw<int64_t>({1, 65535, 7}))), ids);
}

// Broken: a damaged file would be trained on, or its owner not told what is wrong with it and
// where.
TEST_F(TokenFileTest, NamesWhatIsWrongAndWhere) {
  EXPECT_THAT(Wrong("odd.bin", "abc", 70000), HasSubstr("in the middle of a token: 3 bytes"));
  EXPECT_THAT(Wrong("empty.bin", "", 70000), HasSubstr("is empty"));
  EXPECT_THAT(Wrong("big.bin", Raw<uint16_t>({1, 2, 300}), 256),
              HasSubstr("has token 300 at byte 4; the vocabulary has 256"));
  const std::string two = Raw<uint16_t>({1, 2});
  EXPECT_THAT(Wrong("cut.bin", Llmc(20240520, 1, 2, "").substr(0, 500), 9),
              HasSubstr("ends at byte 500, inside the header"));
  EXPECT_THAT(Wrong("version.bin", Llmc(20240520, 7, 2, two), 9), HasSubstr("version 7 at byte 4"));
  EXPECT_THAT(Wrong("count.bin", Llmc(20240520, 1, 3, two), 9),
              HasSubstr("has 2 tokens; the header says 3 at byte 8"));
  EXPECT_THAT(Wrong("none.bin", Llmc(20240520, 1, 0, ""), 9), HasSubstr("holds no tokens"));
  EXPECT_THAT(Wrong("id.bin", Llmc(20240520, 1, 2, two), 2), HasSubstr("token 2 at byte 1026"));
  EXPECT_THAT(Wrong("magic.npy", two, 9), HasSubstr("magic number at byte 0"));
  EXPECT_THAT(Wrong("float.npy", Npy("<f4", "(2,)", two + two), 9), HasSubstr("type '<f4'"));
  EXPECT_THAT(Wrong("swapped.npy", Npy(">u2", "(2,)", two), 9),
              HasSubstr("is big-endian, type '>u2'"));
  EXPECT_THAT(Wrong("wide.npy", Npy("<u2", "(1, 2)", two), 9), HasSubstr("shape (1, 2)"));
  EXPECT_THAT(Wrong("short.npy", Npy("<u2", "(3,)", two), 9), HasSubstr("says 3"));
  EXPECT_THAT(Wrong("header.npy", Npy("<u2", "(2,)", "").substr(0, 60), 9),
              HasSubstr("broken NumPy header at byte 6"));
  EXPECT_THAT(Wrong("minus.npy", Npy("<i8", "(2,)", Raw<int64_t>({5, -1})), 9),
              HasSubstr("has token -1 at byte 136"));
}

// Broken: ids of 32 bits would be read as twice as many of 16, every second one 0.
TEST_F(TokenFileTest, BareIdsAreOfTheWidthThatIsSaid) {
  std::vector<uint32_t> wide;
  std::vector<uint64_t> wider;
  std::vector<uint16_t> narrow;
  for (uint32_t i = 0; i < 40; ++i) {
    wide.push_back(i * 37 % 60);
    wider.push_back(i * 37 % 60);
    narrow.push_back(static_cast<uint16_t>(i * 37 % 60));
  }
  const auto opened = [&](const std::string& bytes, TokenFileOptions options) {
    const auto file = OpenTokenFile(Write("x.bin", bytes), options);
    if (!file.ok()) return std::string(file.status().message());
    return absl::StrCat(file->tokens.size(), " of ", file->tokens.width());
  };
  EXPECT_EQ(opened(Raw(narrow), {}), "40 of 2");
  EXPECT_EQ(opened(Raw(wide), {4, 0}), "40 of 4");
  EXPECT_EQ(opened(Raw(wide), {2, 0}), "80 of 2");
  EXPECT_THAT(opened(Raw(wide), {}), HasSubstr("as every second id: uint32? Set [data] width"));
  EXPECT_THAT(opened(Raw(wider), {}), HasSubstr("as every second id: uint64?"));
  // Of a vocabulary above 65,536 the high halves are not all 0.
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<uint32_t>(i * 3119 % 128000);
  EXPECT_THAT(opened(Raw(wide), {}), HasSubstr("as every second id: uint32?"));
  EXPECT_THAT(opened(Raw(narrow), {0, 128000}),
              HasSubstr("a vocabulary of 128000 needs more than 16 bits; set [data] width"));
  EXPECT_EQ(opened(Raw(narrow), {2, 128000}), "40 of 2");
  EXPECT_THAT(Wrong("large.bin", Raw(narrow), 30), HasSubstr("the vocabulary has 30; read as"));
  EXPECT_THAT(Wrong("large.bin", Raw(narrow), 30), HasSubstr("uint32? Then set [data] width"));
  EXPECT_THAT(opened(Npy("<u2", "(40,)", Raw(narrow)), {4, 0}),
              HasSubstr("has ids of 2 bytes, as its header says, and width is 4"));
  const auto memmap = OpenTokenFile(Write("memmap.npy", Raw(narrow)));
  EXPECT_THAT(std::string(memmap.status().message()), HasSubstr("as np.memmap writes them"));
  EXPECT_EQ(OpenTokenFile(Write("memmap.npy", Raw(narrow)), {2, 0})->tokens.size(), 40u);
}

// Broken: a folder of shards would be refused as text, or be trained on in part.
TEST_F(TokenFileTest, AFolderOfShardsIsOneRow) {
  Write("fineweb_train_000002.bin", Llmc(20240520, 1, 2, Raw<uint16_t>({4, 5})));
  Write("fineweb_train_000001.bin", Llmc(20240520, 1, 3, Raw<uint16_t>({1, 2, 3})));
  Write("fineweb_val_000000.bin", Llmc(20240520, 1, 2, Raw<uint16_t>({6, 7})));
  Write("fineweb_test_000000.bin", Llmc(20240520, 1, 1, Raw<uint16_t>({9})));
  Write("meta.pkl", "x");
  Write("input.txt", "the text itself");
  TokenSource::Options options;
  options.vocabulary = 10;
  const auto source = TokenSource::Open(folder_.path(), options);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<int64_t> train((*source)->train().size());
  (*source)->train().Read(0, absl::MakeSpan(train));
  EXPECT_EQ(train, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  std::vector<int64_t> middle(3);
  (*source)->train().Read(2, absl::MakeSpan(middle));
  EXPECT_EQ(middle, (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ((*source)->train().FindAtLeast(5), 4u);
  EXPECT_EQ((*source)->train().From(1).First(3).Largest(), 4u);
  EXPECT_EQ((*source)->validation().at(0), 6u);
  EXPECT_EQ((*source)->notes().size(), 2u);
}

// Broken: shards without a split in their names would not be split, or text beside them be trained
// on in their place.
TEST_F(TokenFileTest, ShardsWithoutNamesOfASplitAreOneRowWhoseTailValidates) {
  Write("a.bin", Raw<uint16_t>({1, 2, 3, 4, 5, 6}));
  Write("b.bin", Raw<uint16_t>({7, 8, 9, 10}));
  TokenSource::Options options;
  options.vocabulary = 11;
  options.validation_fraction = 0.5;
  const auto source = TokenSource::Open(folder_.path(), options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->train().size(), 5u);
  EXPECT_EQ((*source)->validation().at(0), 6u);
  EXPECT_EQ((*source)->validation().at(4), 10u);
  Write("c.txt", "text");
  EXPECT_THAT(std::string(TokenSource::Open(folder_.path(), options).status().message()),
              HasSubstr("c.txt); keep them in folders of their own, or set [data] kind"));
  options.kind = "bin";
  EXPECT_TRUE(TokenSource::Open(folder_.path(), options).ok());
  Write("c.bin", Npy("<u4", "(1,)", Raw<uint32_t>({1})));
  EXPECT_THAT(std::string(TokenSource::Open(folder_.path(), options).status().message()),
              HasSubstr("c.bin has ids of 4 bytes, and the files before it have ids of 2"));
}

// Broken: nanoGPT's own folder would be split anew, so that validation text is trained on.
TEST_F(TokenFileTest, ANanoGptFolderKeepsItsSplit) {
  Write("train.bin", Raw<uint16_t>({1, 2, 3, 4, 5}));
  Write("val.bin", Raw<uint16_t>({6, 7}));
  TokenSource::Options options;
  options.vocabulary = 8;
  const auto source = TokenSource::Open(folder_.path(), options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->train().size(), 5u);
  EXPECT_EQ((*source)->validation().at(1), 7u);
  EXPECT_EQ((*source)->tokenizer(), nullptr);
  options.vocabulary = 7;
  EXPECT_THAT(std::string(TokenSource::Open(folder_.path(), options).status().message()),
              HasSubstr("val.bin has token 7 at byte 2"));
}

}  // namespace
}  // namespace atolld
