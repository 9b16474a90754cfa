// [model]: what is trained, and what it begins with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "atoll/v1/run.pb.h"

namespace atolld {

struct ConfigModel {
  std::string kind = "gpt";
  uint32_t layers = 4;
  uint32_t heads = 4;
  uint32_t width = 128;
  uint32_t context = 64;
  double dropout = 0;
  uint64_t parameters = 0;  // kind "stub" alone, and there it is needed
  // Of kinds "gpt2" and "llama", where 0 stands for what is usual.
  // Kind "torchscript" alone, of coordinator, local and peer; LoadConfig takes its SHA-256.
  std::string file = "", file_digest = "";
  uint32_t vocabulary = 0;  // 0, of any kind: the data's
  uint32_t hidden = 0;      // 4 widths; llama: 8/3 of one, up to a multiple of 256
  uint32_t kv_heads = 0;    // llama: as many as heads
  bool tied = true;
  double rope_theta = 0;    // llama: 10000
  double norm_epsilon = 0;  // 1e-5
  std::string initial;      // a file of `atoll import`: state 0 is not drawn
  // Adapters beside a frozen base; of any kind but "stub".
  uint32_t lora_rank = 0;
  double lora_alpha = 0;     // 0: 2 lora_rank
  std::string lora_targets;  // "q_proj,v_proj"; empty: the kind's usual
  std::string base;          // a file of `atoll import`, on each peer's machine
  std::string base_digest;   // its SHA-256 in hex, as `atoll import` prints it
};

// What the run records of it, with everything that is usual spelt out.
v1::ModelSpec MakeModelSpec(const ConfigModel& model);

// "a, b" as {"a", "b"}.
std::vector<std::string> SplitNames(const std::string& names);

// The modules of a kind that adapters may stand beside, as lora_targets names them.
std::vector<std::string> AdapterTargets(const std::string& kind);

// The parameters that a run of this model trains and exchanges: with adapters these alone.
// `model` must be one that a worker takes.
uint64_t TrainedParameters(const v1::ModelSpec& model);

}  // namespace atolld
