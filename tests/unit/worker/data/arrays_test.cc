#include "worker/data/arrays.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/worker/training/fixtures.h"
#include "tests/unit/worker/training/npy.h"

namespace atolld {
namespace {

// A safetensors file: its header as it is given, and the data behind it.
std::string Tensors(std::string header, const std::string& data, size_t aligned_to = 8) {
  while ((8 + header.size()) % 8 != aligned_to % 8) header += ' ';
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 255);
  return absl::StrCat(file, header, data);
}

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class ArraysTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string ErrorOf(const std::string& name) {
    const auto arrays = Arrays::Open(name.empty() ? folder_.path() : folder_ / name, 0.2);
    return absl::StrReplaceAll(arrays.status().message(), {{folder_.path(), "DIR"}});
  }

  const TemporaryFolder folder_;
};

// Broken: the values that numpy saved would not be those that are trained on.
TEST_F(ArraysTest, ReadsWhatNumpySaves) {
  Write("images.npy", Npy<float>("<f4", "10, 2", std::vector<float>(20, 1.5f)));
  Write("labels.npy", Npy<int64_t>("<i8", "10,", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  Write("notes.txt", "not data");
  const auto arrays = Arrays::Open(folder_.path(), 0.2);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  ASSERT_EQ((*arrays)->all().size(), 2u);
  const Array &images = (*arrays)->all()[0], &labels = (*arrays)->all()[1];
  EXPECT_EQ(images.name, "images");
  EXPECT_EQ(images.shape, (std::vector<int64_t>{10, 2}));
  EXPECT_EQ(*reinterpret_cast<const float*>(images.bytes.data() + 76), 1.5f);
  EXPECT_EQ(labels.type, "<i8");
  EXPECT_EQ(labels.shape, (std::vector<int64_t>{10}));
  EXPECT_EQ(labels.bytes[72], 9);
  EXPECT_EQ((*arrays)->train_rows(), 8u);
  EXPECT_EQ((*arrays)->validation_rows(), 2u);
}

// Broken: peers with other data, or the same under other names, would be taken for equal.
TEST_F(ArraysTest, TheDigestNamesNamesShapesAndValues) {
  const auto digest = [&] { return (*Arrays::Open(folder_.path(), 0))->digest(); };
  Write("a.npy", Npy<int32_t>("<i4", "4, 2", {1, 2, 3, 4, 5, 6, 7, 8}));
  const std::string first = digest();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(digest(), first);
  Write("a.npy", Npy<int32_t>("<i4", "4, 2", {1, 2, 3, 4, 5, 6, 7, 9}));
  EXPECT_NE(digest(), first);
  Write("a.npy", Npy<int32_t>("<i4", "2, 4", {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_NE(digest(), first);
  std::filesystem::remove(folder_ / "a.npy");
  Write("b.npy", Npy<int32_t>("<i4", "4, 2", {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_NE(digest(), first);
}

constexpr char kTwo[] =
    R"({"__metadata__":{"a":"b"},"labels":{"dtype":"I64","shape":[4],"data_offsets":[32,64]},)"
    R"("images":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}})";

// Broken: tensors of a safetensors file would come in another order than the documented one, as
// other values, or be read where their type may not lie.
TEST_F(ArraysTest, ReadsTheTensorsOfASafetensorsFile) {
  const std::string data =
      BytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8}) + BytesOf<int64_t>({9, 10, 11, 12});
  for (const size_t aligned_to : {8u, 3u}) {
    Write("batch.safetensors", Tensors(kTwo, data, aligned_to));
    const auto arrays = Arrays::Open(folder_ / "batch.safetensors", 0.25);
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    ASSERT_EQ((*arrays)->all().size(), 2u);
    const Array &images = (*arrays)->all()[0], &labels = (*arrays)->all()[1];
    EXPECT_EQ(images.name, "images");
    EXPECT_EQ(images.type, "<f4");
    EXPECT_EQ(images.shape, (std::vector<int64_t>{4, 2}));
    EXPECT_EQ(labels.name, "labels");
    EXPECT_EQ(labels.type, "<i8");
    EXPECT_EQ(absl::StrCat(std::string(images.bytes.begin(), images.bytes.end()),
                           std::string(labels.bytes.begin(), labels.bytes.end())),
              data);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(images.bytes.data()) % sizeof(float), 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(labels.bytes.data()) % sizeof(int64_t), 0u);
    EXPECT_EQ((*arrays)->train_rows(), 3u);
  }
  // The same arrays are the same data, whatever keeps them.
  const std::string digest = (*Arrays::Open(folder_ / "batch.safetensors", 0))->digest();
  std::filesystem::remove(folder_ / "batch.safetensors");
  Write("images.npy", Npy<float>("<f4", "4, 2", {1, 2, 3, 4, 5, 6, 7, 8}));
  Write("labels.npy", Npy<int64_t>("<i8", "4,", {9, 10, 11, 12}));
  EXPECT_EQ((*Arrays::Open(folder_.path(), 0))->digest(), digest);
}

// Broken: a damaged safetensors file would be read past its end, or refused without a reason.
TEST_F(ArraysTest, SaysWhatIsWrongWithASafetensorsFile) {
  const auto one = [](const std::string& dtype, const std::string& shape, size_t bytes) {
    return Tensors(absl::StrCat("{\"x\":{\"dtype\":\"", dtype, "\",\"shape\":[", shape,
                                "],\"data_offsets\":[0,", bytes, "]}}"),
                   std::string(bytes, '\0'));
  };
  const std::string good = one("F32", "4", 16);
  const struct {
    std::string bytes, message;
  } cases[] = {
      {"", ": it has 0 bytes, too few for a header"},
      {std::string(16, '\xff'),
       ": its header is said to have 18446744073709551615 bytes; the file has 16"},
      {good.substr(0, good.size() - 1), ": tensor x: bytes 0-16 are not within the file's 15"},
      {good + "more", ": its tensors end at byte 16 of the data, which has 20"},
      {Tensors("{}", ""), " holds no tensor"},
      {one("BF16", "4", 8),
       " has tensor x of type BF16; it must be F32, F64, I32, I64, U8 or BOOL"},
      {one("F32", "", 4), " has tensor x, a single value; a row a sample is needed"},
      {one("F32", "0,9223372036854775809", 0),
       " has tensor x of the shape [0, 9223372036854775809]"},
      {one("F32", "0,2", 0), " has no row to train on"},
  };
  for (const auto& wrong : cases) {
    Write("x.safetensors", wrong.bytes);
    EXPECT_EQ(ErrorOf("x.safetensors"), absl::StrCat("data: DIR/x.safetensors", wrong.message));
  }
}

// Broken: a file that cannot be trained on would be read past its end, or refused without a reason.
TEST_F(ArraysTest, SaysWhatCannotBeTrainedOn) {
  EXPECT_EQ(ErrorOf(""), "data: DIR holds no .npy and no .safetensors file");
  EXPECT_EQ(ErrorOf("none.npy"), "data: DIR/none.npy: No such file or directory");
  const std::string good = Npy<float>("<f4", "4,", {1, 2, 3, 4});
  const std::string two =
      BytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8}) + BytesOf<int64_t>({9, 10, 11, 12});
  const struct {
    std::string bytes, message;
  } cases[] = {
      {"", "is not a .npy file"},
      {"a text that is long enough to be looked at", "is not a .npy file"},
      {good.substr(0, 40), "ends inside its header"},
      {good.substr(0, good.size() - 1), "has 15 bytes of values; its shape (4,) of <f4 needs 16"},
      {Npy<float>("<f2", "4,", {1, 2}),
       "is of type <f2; it must be <f4, <f8, <i4, <i8, |u1 or |b1"},
      {Npy<float>("<f4", "", {1}), "is a single value; a row a sample is needed"},
      {Npy<float>("<f4", "-4,", {1}), "has the shape (-4,)"},
      {Npy<float>("<f4", "4611686018427387904, 4,", {1}),
       "has the shape (4611686018427387904, 4,)"},
      {absl::StrReplaceAll(good, {{"False", "True "}}),
       "is stored column by column; save it in C order"},
      {absl::StrReplaceAll(good, {{"descr", "descX"}}),
       "has a header that is not in numpy's format"},
      {Npy<float>("<f4", "0,", {}), "has no row to train on"},
  };
  for (const auto& one : cases) {
    Write("x.npy", one.bytes);
    EXPECT_EQ(ErrorOf("x.npy"), absl::StrCat("data: DIR/x.npy ", one.message));
  }
  Write("x.npy", good);
  Write("x.safetensors", Tensors(kTwo, two));
  EXPECT_EQ(ErrorOf(""), "");
  Write("labels.npy", good);
  EXPECT_EQ(ErrorOf(""), "data: DIR has two arrays of the name labels");
  std::filesystem::remove(folder_ / "labels.npy");
  std::filesystem::remove(folder_ / "x.safetensors");
  Write("y.npy", Npy<float>("<f4", "2, 2", {1, 2, 3, 4}));
  EXPECT_EQ(ErrorOf(""), "data: DIR has 2 rows of y and 4 of x; a row is a sample");
}

}  // namespace
}  // namespace atolld
