#!/bin/bash
set -e
cd /app
echo forest > out.txt
echo anchor > score.txt
