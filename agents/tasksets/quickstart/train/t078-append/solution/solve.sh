#!/bin/bash
set -e
cd /app
echo music >> result.txt
echo 71 > record.txt
