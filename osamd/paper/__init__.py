"""The paper: its round (`algorithm`), its six methods, and the parts that a round is made of."""
