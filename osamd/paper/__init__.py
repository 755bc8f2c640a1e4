"""The paper: its round (`algorithm`), its six methods, and the parts that make up a round."""
