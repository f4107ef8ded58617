"""The lives of models: brought up, replaced, taken down, and taken out of service when nobody stands behind them."""
