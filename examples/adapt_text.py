"""Adapt the head of a text encoder to topics whose words change (needs the extra deep: pip install 'osamd[deep]')."""

import torch
from torch import nn

from osamd import NetworkOSAMD


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(80, 32), nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, ids, mask):  # token ids, and where they are words
        words = self.layer(self.table(ids), src_key_padding_mask=~mask)
        return self.head((words * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


def text(topic, moved=0):  # 6 to 19 words, most of them among the topic's 20, which move through the vocabulary
    own = torch.rand(int(torch.randint(6, 20, ()))) < 0.7
    return torch.where(own, 20 * topic + moved + torch.randint(20, own.shape), torch.randint(80, own.shape)) % 80


torch.manual_seed(0)
encoder, topics = Encoder(), torch.randint(4, (6000,))
optimiser = torch.optim.Adam(encoder.parameters(), lr=0.003)
for batch in topics[:4800].split(32):
    ids = nn.utils.rnn.pad_sequence([text(topic) for topic in batch], batch_first=True, padding_value=-1)
    optimiser.zero_grad()
    nn.functional.cross_entropy(encoder(ids.clamp(min=0), ids >= 0), batch).backward()
    optimiser.step()
learner, alone, right = NetworkOSAMD(encoder.eval(), learn="head", budget=0.1), 0, 0  # the encoder runs once per text
for t, topic in enumerate(topics[4800:].tolist()):
    ids = text(topic, moved=t // 60)
    alone += int(encoder(ids[None], ids[None] >= 0).argmax()) == topic
    decision = learner.ask({"ids": ids, "mask": ids >= 0})
    right += decision.label == topic
    learner.tell(decision, topic if decision.query else None)
print(f"left alone: {alone / 12:.1f}% right; adapted: {right / 12:.1f}% right with {learner.asked / 12:.1f}% of labels")
