// Writes a TorchScript file for the tests: a classifier of 36 values into 4 classes whose
// forward(images, labels) is the cross entropy; with "rows" it returns one value per row, which is
// not a loss. Needs only Debian's libtorch, not python3-torch.
#include <torch/script.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  const bool rows = argc == 3 && std::string(argv[2]) == "rows";
  if (argc != 2 && !rows) {
    std::fputs("usage: torchscript_file FILE.pt [rows]\n", stderr);
    return 2;
  }
  at::manual_seed(5);
  torch::jit::Module module("Classifier");
  const auto add = [&](const char* name, const at::Tensor& value) {
    module.register_parameter(name, value.set_requires_grad(true), /*is_buffer=*/false);
  };
  add("hidden", at::randn({36, 16}) * 0.1);
  add("hidden_bias", at::zeros({16}));
  add("output", at::randn({16, 4}) * 0.1);
  std::string forward = R"(
def forward(self, images, labels):
    hidden = torch.relu(torch.matmul(images.flatten(1), self.hidden) + self.hidden_bias)
    logits = torch.log_softmax(torch.matmul(hidden, self.output), 1)
    return -)";
  forward += rows ? "torch.gather(logits, 1, labels.unsqueeze(1))\n"
                  : "torch.mean(torch.gather(logits, 1, labels.unsqueeze(1)))\n";
  module.define(forward);
  module.save(argv[1]);
  return 0;
}
